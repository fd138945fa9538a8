"""What people and programs are shown of pipelines, jobs, streams, sites and changes.

These are what the API answers with: each field is part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PipelineView:
    """A pipeline: which version of its file is in force, and how it is."""

    name: str
    #: The newest version of its file, and the one in force.
    revision: int
    current: int
    #: running, changing, failing, stuck or removed.
    state: str
    jobs: int
    running: int
    sites: tuple[str, ...]
    #: The last change.
    operation: str | None
    description: str = ""


@dataclass(frozen=True, slots=True)
class FatesView:
    """What became of the records that a job read; None is unknown."""

    read: int
    used: int
    filtered: int | None
    malformed: int
    late: int
    dropped: int
    lost_sight: int
    written: dict[str, int]


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as its site last told of it."""

    pipeline: str
    name: str
    site: str
    #: starting, running, stopped, ended, failed; unknown where its site was not heard of.
    state: str
    kind: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    #: The version of the file that it is of, and how often a start of it was ordered.
    revision: int
    generation: int
    #: The engine's own name for its run.
    run: str
    mode: str | None
    batch: int
    rows_per_second: float
    #: When its last batch ended, in seconds since the epoch; None if none did.
    at: float | None
    lag: dict[str, int]
    fates: FatesView
    error: str = ""
    hint: str = ""
    #: The job under whose name its query runs, where several are one query.
    query: str = ""
    #: By stream: what its receiver counted, where its broker keeps no records.
    received: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamView:
    """A stream: where it is, and who writes and reads it."""

    pipeline: str
    name: str
    site: str
    #: Its name at its broker; None for one that is inside a query.
    address: str | None
    partitions: int
    format: str
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    ready: bool


@dataclass(frozen=True, slots=True)
class SiteView:
    """A site: who serves it, and whether it was heard of."""

    name: str
    #: here: by the coordinator; joined: by an agent of its own; nobody: until an agent joins.
    served: str
    #: reachable, away or never heard of: up, away, unknown.
    state: str
    #: For how many seconds nothing was heard of it.
    silent: float | None
    pipelines: tuple[str, ...]
    #: Where its brokers are reached, by pipeline.
    brokers: dict[str, str]
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepView:
    """A step of a change: what it does, how far it is, and what it costs."""

    id: str
    action: str
    kind: str
    name: str
    place: str
    impact: str
    #: waiting, ordered or done.
    state: str
    reasons: tuple[dict[str, str], ...] = ()
    keeps: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    #: Whether the job holds state; None where nobody knows yet.
    stateful: bool | None = None
    #: Streams that the job reads to their ends before it lets go of them.
    drains: tuple[str, ...] = ()
    #: For how many seconds the job stands still: as foreseen, and as it was.
    foreseen: float | None = None
    measured: float | None = None


@dataclass(frozen=True, slots=True)
class OperationView:
    """A change of a pipeline: done or undone, and why; or how far it is."""

    id: str
    pipeline: str
    before: int
    wanted: int
    #: examining, running, undoing; done, undone, stuck, refused.
    state: str
    over: bool
    done: int
    total: int
    untouched: int
    reason: str = ""
    by: str = ""
    #: When it came and when it was over, in seconds since the epoch.
    at: float = 0.0
    ended: float | None = None
    steps: tuple[StepView, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanView:
    """What a file would change, against a revision."""

    pipeline: str
    revision: int
    steps: tuple[StepView, ...]
    untouched: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RevisionView:
    """A version of a pipeline's file."""

    pipeline: str
    number: int
    at: float
    by: str
    note: str
    operation: str
    #: How its operation ended; empty while it is on its way.
    outcome: str
    reason: str
    ended: float | None
    in_force: bool


@dataclass(frozen=True, slots=True)
class EventView:
    """A line of the journal."""

    number: int
    at: float
    kind: str
    about: str
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TokenView:
    """A token, without its secret."""

    id: str
    name: str
    role: str
    pipelines: tuple[str, ...] | None
    site: str | None
    expires: float | None
    revoked: bool


@dataclass(frozen=True, slots=True)
class RecordView:
    """A record of a stream; bytes that are no text are `{"base64": ...}`."""

    partition: int
    position: int
    time: int | None
    key: str | dict[str, str] | None
    value: str | dict[str, str] | None


@dataclass(frozen=True, slots=True)
class LogView:
    """A piece of a log, and where the next one begins."""

    text: str
    next: int
