"""What a predecessor left in the sink behind its last commit, so that nothing is written twice.

Rows of one source partition reach each partition of the sink in the order of their positions. So
for each pair of them the last origin that is there says that all before it are there, too. The
greatest position alone, without the pairs, would lose records: partitions of the sink are written
apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.checkpoint import Committed
from millrace.engines.spark.sink import INDEX
from millrace.engines.spark.source import ORIGIN
from millrace.model.stream import Stream
from millrace.ports import ORIGIN_HEADER

#: How far clocks of writers and of the checkpoint's disk may differ.
MARGIN_MS = 10_000
#: Job, stream, partition, position, index.
_PARTS = 5


@dataclass(frozen=True, slots=True)
class There:
    """The last row of a source partition in a partition of the sink."""

    stream: str
    partition: int
    topic: str
    sink_partition: int
    position: int
    index: int


def tail_of(
    session: SparkSession,
    job: str,
    sinks: Sequence[tuple[Stream, Mapping[str, str]]],
    committed: Committed,
) -> list[There]:
    """Return what is in the sinks behind the last commit, by pair; empty for a first start."""
    if committed.at is None:
        return []
    found: list[There] = []
    for stream, settings in sinks:
        rows = _tail(session, stream, settings, committed.at - MARGIN_MS)
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
        found += [
            There(row.stream, row.partition, stream.address, row.sink_partition, *row["at"])
            for row in last.collect()
        ]
    return found


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


def unwritten(rows: DataFrame, there: Sequence[There]) -> DataFrame:
    """Return the rows that are not in the sink yet."""
    if not there:
        return rows
    return rows.where(~_written(there))


def _written(there: Sequence[There]) -> Column:
    """Whether a row is there: a look-up of its pair; most rows are settled by the first test."""
    highest = max(item.position for item in there)
    pairs = {
        f"{item.stream} {item.partition} {item.topic} {item.sink_partition}": item for item in there
    }
    place = F.concat_ws(
        " ",
        F.col(f"{ORIGIN}.stream"),
        F.col(f"{ORIGIN}.partition").cast("string"),
        F.col("topic"),
        F.col("partition").cast("string"),
    )
    known = F.create_map(
        *(
            part
            for name, item in pairs.items()
            for part in (F.lit(name), F.struct(F.lit(item.position).cast("long").alias("position"),
                                               F.lit(item.index).cast("long").alias("index")))
        )
    )  # fmt: skip
    last = F.try_element_at(known, place)
    position, index = F.col(f"{ORIGIN}.position"), F.col(INDEX)
    before = (position < last.getField("position")) | (
        (position == last.getField("position")) & (index <= last.getField("index"))
    )
    return (position <= highest) & F.coalesce(before, F.lit(col=False))
