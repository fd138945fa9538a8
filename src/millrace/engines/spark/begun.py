"""When a query that was started reads: Spark has planned its first batch, or waits for records.

Spark says that a query runs as soon as its thread does. Sources are asked, the plan is optimized
and its code is compiled after that, which is most of what a start takes, and may fail.
"""

from __future__ import annotations

import time

from pyspark import StatusTracker

from millrace.engines.spark.query import Query
from millrace.model.job import Mode

#: How long a start waits for it. A broker that is away may hold a query back for longer: then it
#: runs as far as anybody can say, and tells itself when it gives up.
#: It is short of what a query whose lease ran out may take to stop: that waits for its start.
BEGIN_SECONDS = 8.0
#: Spark is asked soon, then ever less often: with many starts it has better things to do.
_FIRST_LOOK, _LATER, _LAST_LOOK = 0.1, 1.5, 0.5
#: How Spark's own words begin for a query that found nothing to read.
_IDLE = "Waiting"


def has_begun(query: Query, limit: float = BEGIN_SECONDS) -> bool:
    """Wait until a query reads; False where it ended before, or does not within a limit."""
    tracker = query.compiled.rows.sparkSession.sparkContext.statusTracker()
    until, pause = time.monotonic() + limit, _FIRST_LOOK
    while not _reads(query, tracker):
        if not query.stream.isActive or time.monotonic() > until:
            return _reads(query, tracker)  # it may have since
        time.sleep(pause)
        pause = min(pause * _LATER, _LAST_LOOK)
    return True


def _reads(query: Query, tracker: StatusTracker) -> bool:
    # What is written by `foreachBatch` is done in another thread, whose work has not its name.
    if query.gate.reached.is_set() or tracker.getJobIdsForGroup(query.run):
        return True
    # In real time there is a batch whether there are records or not.
    idle = query.mode is not Mode.REAL_TIME
    return idle and str(query.stream.status["message"]).startswith(_IDLE)
