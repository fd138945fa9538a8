"""A job's inputs: Kafka's records with columns, and beside them what Millrace must not lose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.formats import Schema, decoded, quoted, text
from millrace.model.job import Input, Job
from millrace.model.quantity import Size
from millrace.model.stream import Stream
from millrace.ports import ORIGIN_HEADER, TIMES_HEADER

#: The columns that travel with a row; no user's column may begin like this.
ORIGIN, BAD = "__millrace_origin", "__millrace_bad"
#: One of so many records from outside carries its times with it.
SAMPLED = 128
#: Default limit of a micro-batch, so that a planned stop does not wait for a day's backlog.
MOST_PER_BATCH = 1_000_000
_RECORD = "__millrace_record"
#: Spark would move a job's filter below the parsing, and parse what passes once more. It moves
#: nothing below an expression that is not the same in every task, as the number of a task is.
_ONCE = "if(spark_partition_id() >= 0, {}, NULL)"
#: Settings of Spark's Kafka source that a job may give in its options.
#: Not minPartitions: a partition of the topic must be read by one task for `resume` to be right.
READER = frozenset({"failOnDataLoss", "maxOffsetsPerTrigger"})


@dataclass(frozen=True, slots=True)
class Source:
    """An input as the job's code sees it (`view`) and with all that travels along (`base`)."""

    input: Input
    stream: Stream
    schema: Schema
    #: The records as Kafka has them.
    records: DataFrame
    base: DataFrame
    #: Why a record of it is malformed; empty where none can be.
    cause: str

    def view(self) -> DataFrame:
        """Return the columns of the stream's schema, of records that are not malformed.

        The counts are for queries that lose the origin; `carry` takes this apart again.
        """
        counts = (F.expr("count(1) AS read"), F.expr(f"count_if({BAD}) AS malformed"))
        seen = self.base.observe(f"in:{_name(self.input)}", *counts)
        good = seen.where(f"NOT {BAD}") if self.cause else seen
        return good.selectExpr(*map(quoted, self.schema))


def kafka_reader(
    session: SparkSession,
    stream: Stream,
    settings: Mapping[str, str],
    job: Job,
    input_: Input,
    *,
    batches: bool,
) -> DataFrame:
    """Return a stream's records as Kafka has them; with `batches`, these have a limit."""
    reader = session.readStream.format("kafka").option("subscribe", stream.address)
    client = {**settings, **_sizes(stream.max_record)}
    reader = reader.options(**{f"kafka.{name}": value for name, value in client.items()})
    given = {name: str(value) for name, value in (job.options or {}).items() if name in READER}
    limit = {"maxOffsetsPerTrigger": str(MOST_PER_BATCH)} if batches else {}
    options = {**limit, **given}
    return reader.options(
        startingOffsets=str(input_.start), includeHeaders="true", **options
    ).load()


def _sizes(largest: Size | None) -> dict[str, str]:
    if largest is None:
        return {}
    room = str(largest.bytes + 1024 * 1024)
    return {"max.partition.fetch.bytes": room, "fetch.max.bytes": room}


def source_of(
    input_: Input, stream: Stream, schema: Schema, records: DataFrame, *, letters: bool
) -> Source:
    """Return an input with its columns taken from the records of Kafka.

    The payload travels along only where a dead letter may need it.
    """
    decoding = decoded(stream, schema, "value", _RECORD)
    parsed = records
    if decoding.record:
        parsed = records.selectExpr("*", f"{_ONCE.format(decoding.record)} AS {_RECORD}")
    base = parsed.selectExpr(
        *(f"{column} AS {quoted(name)}" for name, column in decoding.columns.items()),
        f"{_origin(stream, letters=letters)} AS {ORIGIN}",
        f"{decoding.malformed} AS {BAD}",
    )
    return Source(input_, stream, schema, records, base, decoding.cause)


def _name(input_: Input) -> str:
    """What an input is called in the counts of a query, which may read a stream twice."""
    return input_.alias or input_.stream


def _origin(stream: Stream, *, letters: bool) -> str:
    payload = "value" if letters else "CAST(NULL AS BINARY)"
    return (
        f"named_struct('stream', {text(stream.name)}, 'partition', partition, 'position', offset, "
        f"'key', key, 'payload', {payload}, 'times', {TIMES})"
    )


#: The times of the hops so far, this input's own included; null for most records. Our own headers
#: have fixed places (origin, then times), so nothing is searched.
TIMES = (
    f"CASE WHEN get(headers, 1).key = '{TIMES_HEADER}' THEN "
    "concat(CAST(get(headers, 1).value AS STRING), ',', CAST(unix_millis(timestamp) AS STRING)) "
    f"WHEN offset % {SAMPLED} = 0 AND coalesce(get(headers, 0).key != '{ORIGIN_HEADER}', true) "
    "THEN CAST(unix_millis(timestamp) AS STRING) END"
)
