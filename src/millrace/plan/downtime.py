"""For how long the jobs of a plan will stand still, foreseen from what such steps took before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from millrace.model.step import Action, Kind, Step

#: How much the newest measurement counts against what was known.
_WEIGHT = 0.3


@dataclass(frozen=True, slots=True)
class Estimates:
    """What steps take, in seconds, by how much they do; first guesses until something was seen.

    A restart is a stop and a start at one place; a move also hands over what the job keeps.
    """

    restart: float = 2.0
    move: float = 3.0
    move_with_state: float = 4.0

    def learned(self, step: Step, took: float) -> Estimates:
        """Return them after one more step was measured."""
        name = _kind(step)
        before = getattr(self, name)
        return replace(self, **{name: round(before + _WEIGHT * (took - before), 3)})

    @classmethod
    def of(cls, document: Mapping[str, float]) -> Estimates:
        """Return the estimates of their document."""
        return cls(**{name: float(document[name]) for name in cls.__slots__ if name in document})


def foreseen(step: Step, estimates: Estimates) -> float | None:
    """Return for how long a step's job stands still; 0 for one that begins or goes, None for none.

    What a job reads to its end before it stops is not counted: nobody knows how long that takes.
    """
    if step.kind is not Kind.JOB:
        return None
    stopped = f"{Action.STOP} {Kind.JOB} {step.name}" in step.after
    if step.action in (Action.CHANGE, Action.MOVE) or (step.action is Action.START and stopped):
        return float(getattr(estimates, _kind(step)))
    return 0.0


def _kind(step: Step) -> str:
    if step.action is not Action.MOVE:
        return "restart"
    return "move" if step.stateful is False else "move_with_state"
