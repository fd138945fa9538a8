"""The statistics of the road-traffic pipeline: what the local and the global jobs compute."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own guide uses


def summary(passings: DataFrame) -> DataFrame:
    """Return for each window its start, the number of passings and their average speed.

    The job's `window:` has set the watermark and added the column `window`.
    """
    return (
        passings.groupBy("window")
        .agg(F.count("*").alias("vehicles"), F.round(F.avg("speed"), 3).alias("speed"))
        .select(F.col("window.start").alias("start"), "vehicles", "speed")
    )
