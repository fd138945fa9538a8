"""What a query counted in its last batch, though it did not come to tell it."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery


def observed_in(query: StreamingQuery, batch: int) -> dict[str, Any] | None:
    """Return the counts of a batch that a stopped query committed; None if it was another's.

    It is what Spark's own report is made of.
    """
    execution = query._jsq.streamingQuery().lastExecution()
    if execution is None or int(execution.currentBatchId()) != batch:
        return None
    found, metrics = {}, execution.observedMetrics().iterator()
    while metrics.hasNext():
        entry = metrics.next()
        found[str(entry._1())] = json.loads(entry._2().json())
    return found
