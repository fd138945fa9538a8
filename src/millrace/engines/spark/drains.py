"""Whether all input up to some ends is committed, and all that was committed counted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from millrace.engines.spark.checkpoint import Positions, committed
from millrace.engines.spark.query import DRAIN_SECONDS, Query, wait_for
from millrace.errors import OperationFailed
from millrace.model.stream import Stream
from millrace.ports import JobOrder

#: What `wait_for` says after its limit; trying again would take as long.
TOO_SLOW = "too-slow"
#: By stream and partition, the positions up to which a job shall commit.
Ends = Mapping[str, Mapping[int, int]]


def reached(positions: Positions, streams: Mapping[str, Stream], ends: Ends) -> bool:
    """Whether committed positions, by topic, are at the ends of streams."""
    topics = {name: streams[name].address if name in streams else name for name in ends}
    return all(
        positions.get(topics[name], {}).get(part, 0) >= end
        for name, parts in ends.items()
        for part, end in parts.items()
    )


def drained(order: JobOrder, ends: Ends) -> bool:
    """Whether a job has committed all up to some ends, by its checkpoint: it need not run."""
    positions = committed(order.place / "checkpoint").positions
    return reached(positions, order.pipeline.streams, ends)


def not_drained(job: str, why: str) -> OperationFailed:
    """Return what is told of a job that is stopped before it has committed all."""
    return OperationFailed(
        "not-drained",
        f"job {job} was not drained: {why.removeprefix(f'job {job}: ')}",
        "what it has not read is read when it runs again",
        transient=True,
    )


def settle(query: Query) -> None:
    """Count the batches that were committed and whose report had not come yet."""
    done = committed(query.compiled.order.place / "checkpoint").batch
    if any(ledger.progress.batch < done for ledger in query.ledgers.values()):
        count(query, done)  # to ask Spark for its reports takes long
    if (left := query.unreported()) is not None:
        query.add(left, time.time())


def count(query: Query, most: int | None = None) -> None:
    """Count the batches of which Spark still knows the report; not those after `most`."""
    for progress in query.stream.recentProgress:
        report = document(progress)
        if most is None or int(report["batchId"]) <= most:
            query.add(report, time.time())


def run_out(query: Query, told: Callable[[Query], object]) -> None:
    """Wait until a query in drain mode is over; `told` hears of it after each look.

    Spark keeps few reports: it is looked at them meanwhile, so that none is missed.
    """

    def over() -> bool:
        active = query.stream.isActive  # first: what it still did then is counted below
        count(query)
        told(query)
        return not active

    name = query.compiled.order.job.name
    try:
        wait_for(over, DRAIN_SECONDS, f"job {name} was not drained")
    except OperationFailed:
        query.stop()
        raise
    settle(query)


def document(progress: Any) -> dict[str, Any]:
    """Return a report of Spark's as plain data."""
    found = progress.json if hasattr(progress, "json") else progress
    return dict(json.loads(found) if isinstance(found, str) else found)
