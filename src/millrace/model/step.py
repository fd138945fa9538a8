"""A plan as data: steps, why, what they cost, and what must come before what."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from millrace.model.impact import Impact


class Action(StrEnum):
    """What a step does."""

    CREATE = "create"
    CHANGE = "change"
    MOVE = "move"
    STOP = "stop"
    START = "start"
    DELETE = "delete"


class Kind(StrEnum):
    """What a step is about."""

    PILOT = "pilot"
    BROKER = "broker"
    STREAM = "stream"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Reason:
    """A field that differs, with its old and its new value; or a cause in words."""

    text: str
    impact: Impact
    field: str = ""
    old: str = ""
    new: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One action; `after` are the ids of the steps that must be done before."""

    action: Action
    kind: Kind
    name: str
    place: str
    impact: Impact | None
    reasons: tuple[Reason, ...] = ()
    #: What survives it: checkpoint, state, offsets.
    keeps: tuple[str, ...] = ()
    #: Whether a job holds state; None where nobody knows yet, and for things that are no jobs.
    stateful: bool | None = None
    #: Streams that a job reads to their end before it lets go of them.
    drains: tuple[str, ...] = ()
    #: Streams that a job reads from their first record, or from where they were as the plan began.
    joins: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Return a name of the step that is unique in its plan."""
        return f"{self.action} {self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in an order that keeps every record; steps of a level may run side by side."""

    steps: tuple[Step, ...] = ()
    untouched: int = 0
    notes: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.steps

    def levels(self) -> list[list[Step]]:
        """Return the steps by how many others must be done one after another before them."""
        level: dict[str, int] = {}
        found: list[list[Step]] = []
        for step in self.steps:
            depth = 1 + max((level[name] for name in step.after), default=-1)
            level[step.id] = depth
            while len(found) <= depth:
                found.append([])
            found[depth].append(step)
        return found
