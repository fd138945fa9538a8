"""A job's inputs: Kafka's records with columns, and beside them what Millrace must not lose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.arrow import register_reader
from millrace.engines.spark.counts import AS, IN, OLD, SKEW
from millrace.engines.spark.formats import Schema, ddl, decoded, named, quoted
from millrace.engines.spark.passing import Passing
from millrace.engines.spark.plans import Sketch, analyzed, frame_of, known, observed, picked
from millrace.engines.spark.templates import frame_by_template
from millrace.model.job import Input, Job
from millrace.model.policy import OverloadPolicy
from millrace.model.quantity import Size
from millrace.model.stream import Format, Promise, Stream
from millrace.ports import ORIGIN_HEADER, TIMES_HEADER

#: The columns that travel with a row; no user's column may begin like this.
ORIGIN, BAD = "__millrace_origin", "__millrace_bad"
#: One of so many records from outside carries its times with it.
SAMPLED = 128
#: Spark's number for the beginning of a partition.
_EARLIEST = -2
#: Default limit of a micro-batch, so that a planned stop does not wait for a day's backlog.
MOST_PER_BATCH = 1_000_000
#: The same where a batch passes the driver, whose memory must hold it.
MOST_IN_TRANSACTION = 250_000
#: So long a broker may keep a reader in real time waiting for a record, which it gets at once.
IDLE_MILLISECONDS = "5000"
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
    #: Whether rows may be malformed, and so know it: those of another job of the query may be.
    marked: bool = True
    #: Whether the records are counted in `base` already; `bare` are those that are not.
    counted: bool = False
    bare: DataFrame | None = None
    #: The column of its records' own time, if the job goes by it.
    by: str | None = None
    #: Where `base` has all rows, which of them are really there.
    passing: Passing | None = None

    @property
    def carries(self) -> bool:
        """Whether the last columns of `base` are a row's origin and whether it is malformed."""
        return self.marked or self.bare is not None

    def view(self) -> DataFrame:
        """Return the columns of the stream's schema, of records that are not malformed.

        They are counted, for queries that lose the origin; `carry` takes this apart again.
        """
        seen = analyzed(self.base)
        if not self.counted:
            seen = observed(seen, _observation(self.input), *_counts(self.by))
        return frame_of(self.base.sparkSession, self._picked(seen))

    def uncounted(self) -> Any:
        """Return the plan of the same, without counts that are not in `base` already."""
        return known(self._picked(analyzed(self.base)))

    def _picked(self, rows: Any) -> Any:
        return picked(rows, len(self.schema), unless_last=self.marked)


def counted(base: DataFrame, input_: Input, by: str | None = None) -> DataFrame:
    """Return the records of an input, counted; with a column of time, also their mean skew.

    That is how long after its own time a record came to the broker, in milliseconds.
    """
    return Sketch.on(base).observe(_observation(input_), *_counts(by)).frame()


def _counts(by: str | None) -> list[str]:
    counts = ["count(1) AS read", f"count(if({BAD}, 1, NULL)) AS malformed"]
    if by is not None:
        own = f"CAST({quoted(by)} AS TIMESTAMP)"
        skew = f"unix_millis({ORIGIN}.appended) - unix_millis({own})"
        counts.append(f"avg(if({BAD}, NULL, {skew})) AS {SKEW}")
    return counts


def _observation(input_: Input) -> str:
    return f"{IN}{_name(input_)}"


def _name(input_: Input) -> str:
    """What an input is called in the counts of a query, which may read a stream twice."""
    return input_.stream if input_.alias is None else f"{input_.stream}{AS}{input_.alias}"


def kafka_reader(
    session: SparkSession,
    stream: Stream,
    settings: Mapping[str, str],
    job: Job,
    input_: Input,
    *,
    batches: bool,
    begin: Mapping[int, int] | None = None,
) -> DataFrame:
    """Return a stream's records as Kafka has them; with `batches`, these have a limit.

    A query without a checkpoint starts at the positions of `begin`, if given.
    """
    start: Any = session.read if input_.table else session.readStream
    reader = start.format("kafka").option("subscribe", stream.address)
    client = {**settings, **_sizes(stream.max_record), "isolation.level": "read_committed"}
    if not batches:
        client["fetch.max.wait.ms"] = IDLE_MILLISECONDS
    reader = reader.options(**{f"kafka.{name}": value for name, value in client.items()})
    if input_.table:
        found: DataFrame = reader.option("includeHeaders", "true").load()
        return found
    given = {name: str(value) for name, value in (job.options or {}).items() if name in READER}
    most = MOST_IN_TRANSACTION if job.promise is Promise.NO_DUPLICATES else MOST_PER_BATCH
    limit = {"maxOffsetsPerTrigger": str(most)} if batches else {}
    options = {**limit, **given}
    first = str(input_.start) if begin is None else starting_offsets(stream, begin)
    records: DataFrame = reader.options(
        startingOffsets=first, includeHeaders="true", **options
    ).load()
    return records


def starting_offsets(stream: Stream, begin: Mapping[int, int]) -> str:
    """Return positions as Spark's source takes them: it asks for one of every partition.

    One that is not known is new: it is read from its beginning.
    """
    places = {str(part): begin.get(part, _EARLIEST) for part in range(stream.partitions)}
    return json.dumps({stream.address: places})


def fresh(records: DataFrame, input_: Input, job: Job) -> DataFrame:
    """Return the records that a job works on: not those that are too old, where it says so.

    Their age is that at the beginning of their batch, which Spark remembers: a batch that runs
    again leaves out the same.
    """
    policy = job.overload
    if policy is None or policy.policy is not OverloadPolicy.DROP_OLDEST:
        return records
    wait = 0 if policy.after is None else policy.after.nanoseconds // 1_000_000
    old = f"unix_millis(timestamp) < unix_millis(current_timestamp()) - {wait}"
    seen = records.observe(f"{OLD}{_name(input_)}", F.expr(f"count(if({old}, 1, NULL)) AS records"))
    return seen.where(f"NOT ({old})")


def table_of(input_: Input, stream: Stream, schema: Schema, records: DataFrame) -> Source:
    """Return an input that is read as a table, anew for each batch.

    It is the last record of each key; a record without a value takes its key away. Malformed ones
    are left out; nothing of it is counted, for its records are not what the job works on.
    """
    row = "struct(key, value, topic, partition, offset, timestamp, timestampType, headers)"
    last = records.groupBy("key").agg(F.expr(f"max_by({row}, struct(timestamp, offset)) AS last"))
    there = last.select("last.*").where("value IS NOT NULL")
    return replace(source_of(input_, stream, schema, there, letters=False), counted=True)


def _sizes(largest: Size | None) -> dict[str, str]:
    if largest is None:
        return {}
    room = str(largest.bytes + 1024 * 1024)
    return {"max.partition.fetch.bytes": room, "fetch.max.bytes": room}


def source_of(
    input_: Input,
    stream: Stream,
    schema: Schema,
    records: DataFrame,
    *,
    letters: bool,
    count: bool = False,
    lineage: bool = False,
    appended: bool = False,
    by: str | None = None,
    alone: bool = False,
) -> Source:
    """Return an input with its columns taken from the records of Kafka.

    The payload travels along only where a dead letter may need it. With `count` its records are
    counted at once, for a query of several jobs; with `lineage` origins have room for what
    functions on the way make of a record; with `appended` they have the broker's time. `by` is the
    column of the records' own time, where the job goes by one; `alone` says that the query has no
    other input.
    """
    decoding = decoded(stream, schema, "value", _RECORD)
    by = by if by in schema else None
    timed = appended or by is not None
    parsed = Sketch.on(records)
    if stream.format is Format.ARROW:
        register_reader(records.sparkSession, schema, ddl(schema))
    if decoding.record:
        parsed = parsed.select("*", f"{_ONCE.format(decoding.record)} AS {_RECORD}")
    columns = parsed.select(
        *(f"{column} AS {quoted(name)}" for name, column in decoding.columns.items()),
        f"{origin(stream, letters=letters, lineage=lineage, appended=timed)} AS {ORIGIN}",
        f"{decoding.malformed} AS {BAD}",
    )
    base = frame_by_template(columns, stream) if alone else columns.frame()
    bare, marked = base, bool(decoding.cause)
    if count:
        base = counted(base, input_, by)
    return Source(input_, stream, schema, records, base, decoding.cause, marked, count, bare, by)


def origin(stream: Stream, *, letters: bool, lineage: bool = False, appended: bool = False) -> str:
    """Return where a record of Kafka comes from, as a struct.

    The lineage of one that passed a function: its index among that function's results; for a dead
    one the stream from which it was read when it died, its fate and the cause.
    """
    payload = "value" if letters else "CAST(NULL AS BINARY)"
    more = ", 'appended', timestamp" if appended else ""
    if lineage:
        more += (
            ", 'index', 0L, 'via', CAST(NULL AS STRING), 'fate', CAST(NULL AS INT), "
            "'cause', CAST(NULL AS STRING)"
        )
    return (
        f"named_struct('stream', {named(stream.name)}, 'partition', partition, 'position', offset, "
        f"'key', key, 'payload', {payload}, 'times', {TIMES}{more})"
    )


#: The times of the hops so far, this input's own included; null for most records. Our own headers
#: have fixed places (origin, then times), so nothing is searched.
TIMES = (
    f"CASE WHEN get(headers, 1).key = '{TIMES_HEADER}' THEN "
    "concat(CAST(get(headers, 1).value AS STRING), ',', CAST(unix_millis(timestamp) AS STRING)) "
    f"WHEN offset % {SAMPLED} = 0 AND NOT (get(headers, 0).key <=> '{ORIGIN_HEADER}') "
    "THEN CAST(unix_millis(timestamp) AS STRING) END"
)
