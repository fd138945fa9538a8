"""Warms a driver up while it waits for its first job: the first query loads half of Spark."""

from __future__ import annotations

from contextlib import suppress

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows


def warm_up(session: SparkSession) -> None:
    """Run a small query that loads what every job needs; its failure means nothing."""
    with suppress(Exception):
        own = session.newSession()
        frame = own.range(1).select(F.to_json(F.struct("id")).alias("value"))
        frame = frame.select(
            F.from_json("value", "id long").alias("r"), F.crc32("value").alias("c")
        )
        frame.observe("warm", F.count(F.lit(1)).alias("n")).collect()
