"""What a predecessor left in the sink behind its last commit, so that nothing is written twice.

Rows of one source partition reach each partition of the sink in the order of their positions. So
for each pair of them the last origin that is there says that all before it are there, too. The
greatest position alone, without the pairs, would lose records: partitions of the sink are written
apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.checkpoint import Committed
from millrace.engines.spark.formats import named, text
from millrace.engines.spark.plans import Sketch
from millrace.engines.spark.sink import INDEX
from millrace.engines.spark.source import ORIGIN
from millrace.model.stream import Stream
from millrace.ports import ORIGIN_HEADER, Log, origin_of

#: How far clocks of writers and of the checkpoint's disk may differ.
MARGIN_MS = 10_000
#: So many records are read by one thread before a job of Spark's is even planned.
LITTLE = 20_000
#: Job, stream, partition, position, index.
_PARTS = 5
#: So many pairs are tested one by one: Spark plans that sooner than a look-up.
FEW = 8
_AT = f"{ORIGIN}.position"


@dataclass(frozen=True, slots=True)
class There:
    """The last row of a source partition in a partition of the sink."""

    stream: str
    partition: int
    topic: str
    sink_partition: int
    position: int
    index: int


@dataclass(frozen=True, slots=True)
class Sink:
    """A stream that a job writes, and how its broker is reached: by Java's clients, and by log."""

    stream: Stream
    settings: Mapping[str, str]
    log: Log | None = None


def tail_of(
    session: SparkSession, job: str, sinks: Sequence[Sink], committed: Committed
) -> list[There]:
    """Return what is in the sinks behind the last commit, by pair; empty for a first start.

    What is little is read right here: a job of Spark's takes longer to plan than that to read.
    """
    if committed.at is None:
        return []
    found: list[There] = []
    for sink in sinks:
        since = committed.at - MARGIN_MS
        little = _little(sink.log, sink.stream.address, job, since) if sink.log else None
        found += _much(session, sink, job, since) if little is None else little
    return found


def _little(log: Log, address: str, job: str, since: int) -> list[There] | None:
    """What is there since some time; None where it is too much for one thread."""
    records = log.last(address, since, LITTLE)
    if records is None:
        return None
    last: dict[tuple[str, int, int], tuple[int, int]] = {}
    for record in records:
        origin = origin_of(replace(record, headers=record.headers[:1]))
        if origin is None or origin.job != job or record.partition is None:
            continue
        pair = (origin.stream, origin.partition, record.partition)
        last[pair] = max(last.get(pair, (-1, -1)), (origin.position, origin.index))
    return [
        There(stream, part, address, sink, position, index)
        for (stream, part, sink), (position, index) in last.items()
    ]


def _much(session: SparkSession, sink: Sink, job: str, since: int) -> list[There]:
    rows = _tail(session, sink.stream, sink.settings, since)
    last = (
        rows.where((F.col("origin")[0] == job) & (F.size("origin") == _PARTS))
        .select(
            F.col("origin")[1].alias("stream"),
            F.col("origin")[2].cast("int").alias("partition"),
            F.col("sink_partition"),
            F.struct(
                F.col("origin")[3].cast("long").alias("position"),
                F.col("origin")[4].cast("long").alias("index"),
            ).alias("at"),
        )
        .groupBy("stream", "partition", "sink_partition")
        .agg(F.max("at").alias("at"))
    )
    return [
        There(row.stream, row.partition, sink.stream.address, row.sink_partition, *row["at"])
        for row in last.collect()
    ]


def _tail(
    session: SparkSession, stream: Stream, settings: Mapping[str, str], since: int
) -> DataFrame:
    reader = session.read.format("kafka").option("subscribe", stream.address)
    # What a transaction wrote that was given up is in the log, and nobody sees it.
    reader = reader.option("kafka.isolation.level", "read_committed")
    for name, value in settings.items():
        reader = reader.option(f"kafka.{name}", value)
    records = reader.options(
        includeHeaders="true",
        startingTimestamp=str(since),
        startingOffsetsByTimestampStrategy="latest",
    ).load()
    first = F.get("headers", F.lit(0))
    return records.where(first.getField("key") == ORIGIN_HEADER).select(
        F.split(first.getField("value").cast("string"), " ").alias("origin"),
        F.col("partition").alias("sink_partition"),
    )


def unwritten(rows: Sketch, there: Sequence[There], *, alone: str | None = None) -> Sketch:
    """Return the rows that are not in the sink yet.

    `alone` is the stream that all come from, one of each record, where they go to one partition.
    """
    if alone is not None:  # what was made of another stream before is there, too
        there = [item for item in there if item.stream == alone]
    if not there:
        return rows
    known = _written(there) if alone is None else _reached(there)
    return rows.where(f"NOT ({known})")


def _reached(there: Sequence[There]) -> str:
    """Whether a row is there, by where it came from: there is only one place for it to be.

    Positions are given as a name is: they are all that differs between many jobs, and neither
    Spark's plan nor its code is another one for them.
    """
    last = {item.partition: item.position for item in there}
    positions = " ".join(str(last.get(part, -1)) for part in range(max(last) + 1))
    known = f"get(CAST(split({named(positions)}, ' ') AS ARRAY<BIGINT>), {ORIGIN}.partition)"
    return f"coalesce({_AT} <= {known}, false)"


def _written(there: Sequence[There]) -> str:
    """Whether a row is there; most rows are settled by the first test.

    As one text: put together call by call it would cost more than the rest of a start.
    """
    highest = max(item.position for item in there)
    known = _tested(there) if len(there) <= FEW else _looked_up(there)
    return f"{_AT} <= {highest}L AND coalesce({known}, false)"  # what is not known is not there


def _tested(there: Sequence[There]) -> str:
    """Whether a row is one of few pairs, and not behind its last: each pair is a test."""
    return " OR ".join(
        f"({ORIGIN}.stream = {text(item.stream)} AND {ORIGIN}.partition = {item.partition} "
        f"AND topic = {text(item.topic)} AND partition = {item.sink_partition} "
        f"AND ({_before(f'{item.position}L', f'{item.index}L')}))"
        for item in there
    )


def _looked_up(there: Sequence[There]) -> str:
    """The same for many, of which a plan of tests would be long."""
    pairs = {
        f"{item.stream} {item.partition} {item.topic} {item.sink_partition}": item for item in there
    }
    known = ", ".join(
        f"{text(name)}, named_struct('position', {item.position}L, 'index', {item.index}L)"
        for name, item in pairs.items()
    )
    place = (
        f"concat_ws(' ', {ORIGIN}.stream, CAST({ORIGIN}.partition AS STRING), topic, "
        "CAST(partition AS STRING))"
    )
    last = f"try_element_at(map({known}), {place})"
    return _before(f"{last}.position", f"{last}.index")


def _before(position: str, index: str) -> str:
    """Whether a row is not behind the last that is there."""
    return f"{_AT} < {position} OR ({_AT} = {position} AND {INDEX} <= {index})"
