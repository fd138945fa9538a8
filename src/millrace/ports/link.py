"""Between a coordinator and the agent of a site: what shall be there, and what is.

Both are told as a whole, again and again: who was away, or began anew, is right again after the
next exchange. A site's agent asks; a coordinator never reaches out to a site.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from millrace.model.pipeline import Pipeline
from millrace.model.status import Facts
from millrace.ports.engine import JobState, Progress

#: A name, and the number of the file that describes what has it.
Thing = tuple[str, int]
#: By a stream's address and partition.
Positions = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class JobGoal:
    """A query at a site: that it runs, or that it stands still there.

    Each start that a coordinator orders has a `generation` of its own; an agent refuses to go back
    to an earlier one. `folder` is the number of the folder that holds its progress.
    """

    #: The number of the file that describes it.
    revision: int
    generation: int
    folder: int
    running: bool = True
    #: The streams that it reads to their ends before it stops.
    drains: tuple[str, ...] = ()
    #: Where it begins in a folder that holds nothing yet.
    begins: Positions = field(default_factory=dict)
    #: When that was committed, in milliseconds since the epoch.
    since: int | None = None
    #: The site and folder from which what it keeps is brought over before it starts.
    brought: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class PipelineGoal:
    """What a site shall be for a pipeline."""

    #: By number, the files that its things are of.
    revisions: Mapping[int, Pipeline] = field(default_factory=dict)
    #: The file of which its broker is, if it has one.
    serving: int | None = None
    streams: frozenset[Thing] = frozenset()
    #: The streams to be removed.
    dropped: frozenset[Thing] = frozenset()
    jobs: Mapping[str, JobGoal] = field(default_factory=dict)
    #: The number of a file whose queries, these, the site's engines shall look at.
    examined: int | None = None
    queries: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SiteGoal:
    """What a site shall be, by the word of the coordinator of a generation."""

    generation: int
    pipelines: Mapping[str, PipelineGoal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobReport:
    """A query as its site has it. A job of the goal that does not run is `stopped`."""

    generation: int
    state: JobState
    #: The engine's own name for this run.
    run: str = ""
    progress: Progress = field(default_factory=Progress)
    error: str = ""
    hint: str = ""
    transient: bool = True


@dataclass(frozen=True, slots=True)
class PipelineReport:
    """What a site is for a pipeline, as far as its goal asked."""

    #: Where clients reach its broker, while that serves.
    broker: str | None = None
    #: Streams that are as their files say.
    streams: frozenset[Thing] = frozenset()
    #: Streams that are proven to be no longer there.
    gone: frozenset[Thing] = frozenset()
    jobs: Mapping[str, JobReport] = field(default_factory=dict)
    #: What could not be done of brokers and streams, by name.
    errors: Mapping[str, str] = field(default_factory=dict)
    #: The number of the file that engines looked at, what they found out of its jobs, and why some
    #: of them can't run.
    examined: int | None = None
    facts: Facts = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SiteReport:
    """What a site is."""

    site: str
    pipelines: Mapping[str, PipelineReport] = field(default_factory=dict)


class Link(Protocol):
    """An agent's way to its coordinator."""

    def exchange(self, report: SiteReport, wait: float) -> SiteGoal | None:
        """Tell what is there and return what shall be; None where nothing changed for so long.

        Raises where the coordinator can't be reached: the agent keeps its site as last told.
        """
        ...
