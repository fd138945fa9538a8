"""What was seen of the world, as data for the planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millrace.model.job import Mode
from millrace.model.pipeline import Pipeline


@dataclass(frozen=True)
class Observed:
    """What is there: things as they were last made, and the jobs of them that don't run."""

    pipeline: Pipeline = field(default_factory=lambda: Pipeline(""))
    down: frozenset[str] = frozenset()
    #: Whether its jobs are queries already: in the middle of a change they are of several files.
    queries: bool = False


@dataclass(frozen=True)
class JobFacts:
    """What an engine found out about a job without starting it; None is unknown."""

    mode: Mode | None = None
    reasons: tuple[str, ...] = ()
    #: By output: the columns of what it writes.
    schemas: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    operators: tuple[str, ...] = ()
    stateful: bool | None = None


Facts = Mapping[str, JobFacts]
