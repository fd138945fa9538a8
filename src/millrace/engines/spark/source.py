"""A job's inputs: Kafka's records with columns, and beside them what Millrace must not lose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.formats import Decoded, Schema, decoded
from millrace.model.job import Input, Job
from millrace.model.quantity import Size
from millrace.model.stream import Stream

#: The columns that travel with a row; no user's column may begin like this.
ORIGIN, BAD = "__millrace_origin", "__millrace_bad"
ORIGIN_HEADER, TIMES_HEADER = "millrace-origin", "millrace-times"
#: One of so many records from outside carries its times with it.
SAMPLED = 128
#: Default limit of a micro-batch, so that a planned stop does not wait for a day's backlog.
MOST_PER_BATCH = 1_000_000
_RECORD = "__millrace_record"
#: Settings of Spark's Kafka source that a job may give in its options.
READER = frozenset({"failOnDataLoss", "maxOffsetsPerTrigger", "minPartitions"})


@dataclass(frozen=True, slots=True)
class Source:
    """An input as the job's code sees it (`view`) and with all that travels along (`base`)."""

    input: Input
    stream: Stream
    schema: Schema
    #: The records as Kafka has them.
    records: DataFrame
    base: DataFrame
    cause: str

    @property
    def times(self) -> Column:
        """The times of the hops so far, of a row of `records`."""
        return _times()

    def view(self) -> DataFrame:
        """Return the columns of the stream's schema, of records that are not malformed.

        The counts are for queries that lose the origin; `carry` takes this apart again.
        """
        counts = (F.count(F.lit(1)).alias("read"), F.count_if(BAD).alias("malformed"))
        seen = self.base.observe(f"in:{self.stream.name}", *counts)
        return seen.where(~F.col(BAD)).select(*(f"`{name}`" for name in self.schema))


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
    decoding = decoded(stream, schema, F.col("value"), F.col(_RECORD))
    staged = records.withColumn(_RECORD, decoding.record)
    columns = [column.alias(name) for name, column in decoding.columns.items()]
    base = staged.select(
        *columns,
        _origin(stream, decoding, letters=letters).alias(ORIGIN),
        decoding.malformed.alias(BAD),
    )
    return Source(input_, stream, schema, records, base, decoding.cause)


def _origin(stream: Stream, decoding: Decoded, *, letters: bool) -> Column:
    payload = F.when(decoding.malformed, F.col("value")) if letters else F.lit(None).cast("binary")
    return F.struct(
        F.lit(stream.name).alias("stream"),
        F.col("partition"),
        F.col("offset").alias("position"),
        F.col("key"),
        payload.alias("payload"),
        _times().alias("times"),
    )


def _times() -> Column:
    """The times of the hops so far, this input's own included; null for most records.

    Our own headers have fixed places (origin, then times), so nothing is searched.
    """
    first, second = F.get("headers", F.lit(0)), F.get("headers", F.lit(1))
    own = F.unix_millis("timestamp").cast("string")
    before = second.getField("value").cast("string")
    carried = F.when(second.getField("key") == TIMES_HEADER, F.concat(before, F.lit(","), own))
    from_outside = F.coalesce(first.getField("key") != ORIGIN_HEADER, F.lit(col=True))
    begun = F.when(from_outside & (F.col("offset") % SAMPLED == 0), own)
    return F.coalesce(carried, begun)
