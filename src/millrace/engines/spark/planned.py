"""Plans made short once, at a job's start.

Spark optimizes a streaming query's plan anew for every batch. In real-time mode records wait
meanwhile, so a job's plan is given to Spark as its optimizer leaves it: what is left to do at a
boundary is little.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from millrace.engines.spark.java import CATALYST, scala_object
from millrace.engines.spark.plans import analyzed, frame_of


def shortened(rows: DataFrame) -> DataFrame:
    """Return the same rows by a plan that is optimized already; only for stateless queries.

    A plan that asks for the time is left alone: the optimizer puts in the time of now.
    """
    session = rows.sparkSession
    plan = analyzed(rows)
    if plan.containsPattern(scala_object(f"{CATALYST}.trees.TreePattern").CURRENT_LIKE()):
        return rows
    short = session._jsparkSession.sessionState().optimizer().execute(plan)
    return frame_of(session, short)
