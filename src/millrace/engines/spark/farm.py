"""A farm: records dealt to the replicas of a job, and their results gathered again."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.formats import text
from millrace.engines.spark.sink import INDEX
from millrace.engines.spark.source import ORIGIN, Source
from millrace.model.job import Job, Order

#: So many records in a row go to one replica: few enough to share, many enough for a batch.
_RUN = 256
#: Columns that say where in its input a result belongs.
_PLACE = ("__source", "__position", "__turn")


def in_turn(job: Job) -> bool:
    """Whether the results of each partition are written in the order of its records."""
    return not _farmed(job) or gathers(job)


def gathers(job: Job) -> bool:
    """Whether results must be put in the order of their records."""
    return _farmed(job) and job.order is Order.PRESERVE


def _farmed(job: Job) -> bool:
    """Whether records are dealt out: a function's; the engine itself shares other work."""
    return job.replicas > 1 and job.map is not None and job.window is None


def dealt(records: DataFrame, job: Job) -> DataFrame:
    """Deal records to replicas: those of a key to one, or run by run.

    Without replicas each partition of an input is one's work already. A replica gets the records of
    a partition in their order, for one task read them.
    """
    count = job.replicas
    if count == 1:
        return records
    by = "coalesce(crc32(key), position)" if job.order is Order.KEY else f"position DIV {_RUN}"
    return records.repartitionById(count, F.expr(f"CAST(pmod({by}, {count}) AS INT)"))


def places(sources: Sequence[Source]) -> list[str]:
    """Return the columns by which `gathered` puts rows in order."""
    before, cases = 0, []
    for source in sources:
        cases.append(f"WHEN {ORIGIN}.stream = {text(source.stream.name)} THEN {before}")
        before += source.stream.partitions
    place, position, turn = _PLACE
    return [
        f"CAST(CASE {' '.join(cases)} END + {ORIGIN}.partition AS INT) AS {place}",
        f"{ORIGIN}.position AS {position}",
        f"{INDEX} AS {turn}",
    ]


def gathered(batch: DataFrame, sources: Sequence[Source]) -> DataFrame:
    """Return a batch's rows, those of each partition of an input in the order of its records.

    Spark sorts no stream, but a batch.
    """
    count = sum(source.stream.partitions for source in sources)
    return batch.repartitionById(count, _PLACE[0]).sortWithinPartitions(*_PLACE).drop(*_PLACE)
