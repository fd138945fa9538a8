"""Which mode a job runs in, and why; decided from facts, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millrace.errors import OperationFailed
from millrace.model.job import Emit, Job, Mode, Order
from millrace.model.policy import OverloadPolicy
from millrace.model.stream import Promise

#: The shortest real-time batch that Spark allows.
LEAST_BATCH_SECONDS = 5
#: Logical operators whose physical ones are on Spark's list for real-time mode.
_ALLOWED = frozenset(
    {
        "Aggregate",
        "CollectMetrics",
        "Deduplicate",
        "EventTimeWatermark",
        "Expand",
        "Filter",
        "Generate",
        "LocalRelation",
        "Project",
        "StreamingRelationV2",
        "SubqueryAlias",
        "Union",
        "View",
    }
)
_WORDS = {
    "Deduplicate": "removing duplicates",
    "Distinct": "DISTINCT",
    "GlobalLimit": "LIMIT",
    "Join": "a join",
    "LocalLimit": "LIMIT",
    "MapInArrow": "a Python function over batches",
    "MapInPandas": "a Python function over batches",
    "PythonMapInArrow": "a Python function over batches",
    "Sort": "ORDER BY",
    "TransformWithStateInPySpark": "state kept by Python",
    "Window": "a window function (OVER)",
}


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """What matters of a job's query for its mode."""

    operators: tuple[str, ...]
    python: bool
    stateful: bool
    #: Whether each result knows the record that it came from.
    carries: bool
    #: Whether malformed records must be written somewhere.
    letters: bool
    #: How many brokers the outputs are on.
    brokers: int
    #: Task slots it needs in real-time mode, and those that the driver has.
    slots: int
    slots_there: int
    #: Whether some of its streams are on other brokers than Kafka.
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """The mode, and the reasons for it."""

    mode: Mode
    reasons: tuple[str, ...]


def choose(jobs: Sequence[Job], facts: QueryFacts) -> Choice:
    """Return the mode of a query; raises where the file asks for one that can't be.

    Jobs of one query ask for the same.
    """
    job, *_ = jobs
    against = obstacles(jobs, facts)
    if job.mode is Mode.REAL_TIME:
        if against:
            raise OperationFailed(
                "no-real-time",
                f"job {job.name} can't run in real-time mode: {'; '.join(against)}",
                "write mode: micro-batch, or mode: auto to let Millrace choose",
            )
        return Choice(Mode.REAL_TIME, ("the file asks for it",))
    if job.mode is not Mode.AUTO:
        return Choice(job.mode, ("the file asks for it",))
    if against:
        return Choice(Mode.MICRO_BATCH, tuple(against))
    return Choice(Mode.REAL_TIME, ("nothing stands against it",))


def likely_batches(jobs: Sequence[Job]) -> bool:
    """Whether the file alone says that a query runs in batches, most likely."""
    return any(
        job.mode in (Mode.MICRO_BATCH, Mode.DRAIN)
        or job.kind in ("map", "state")
        or job.outside
        or job.interval is not None
        or (job.window is not None and job.emit is Emit.FINAL)
        for job in jobs
    )


def obstacles(jobs: Sequence[Job], facts: QueryFacts) -> list[str]:
    """Return why a query can't run in real-time mode; empty if it can."""
    job, *_ = jobs
    found = []
    if kinds := [other.kind for other in jobs if other.kind in ("map", "state")]:
        found.append(f"{kinds[0]}: a Python function would hold records until the batch ends")
    elif facts.python:
        found.append("a Python function in the query would hold records until the batch ends")
    found += [
        f"{_WORDS.get(name, name)} is not on Spark's list for real-time mode"
        for name in facts.operators
        if name not in _ALLOWED and not (name in ("MapInArrow", "PythonMapInArrow") and found)
    ]
    if facts.stateful and job.emit is Emit.FINAL:
        found.append("emit: final gives each result once, when it is final (emit: updates may)")
    if facts.stateful and facts.letters and not facts.carries:
        found.append("malformed records of a job with state need a second read of its input")
    found += _asked(job)
    if facts.elsewhere:
        found.append("streams of other brokers than Kafka are read and written in batches")
    if facts.brokers > 1:
        found.append("its outputs are on several brokers")
    if facts.slots > facts.slots_there:
        found.append(f"it needs {facts.slots} task slots and the driver has {facts.slots_there}")
    return found


def _asked(job: Job) -> list[str]:
    """What the file asks for that only batches give."""
    drops = job.overload is not None and job.overload.policy is OverloadPolicy.DROP_OLDEST
    least = job.checkpoint.every.seconds < LEAST_BATCH_SECONDS
    reasons = {
        "what is outside of brokers is read and written in batches": job.outside,
        "order: preserve needs batches": job.order is Order.PRESERVE,
        "promise: no-duplicates needs batches": job.promise is Promise.NO_DUPLICATES,
        "overload: drop-oldest looks at the age of records when a batch begins": drops,
        f"interval: {job.interval} asks for batches": job.interval is not None,
        f"checkpoint.every is below {LEAST_BATCH_SECONDS} s, Spark's least": least,
    }
    return [reason for reason, holds in reasons.items() if holds]
