"""Between a coordinator and the agent of a site: what shall be there, and what is.

Both are told as a whole, again and again: who was away, or began anew, is right again after the
next exchange. A site's agent asks; a coordinator never reaches out to a site.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from millrace.model.job import Mode
from millrace.model.pipeline import Pipeline
from millrace.model.status import Facts
from millrace.ports.engine import JobState, Progress

#: A name, and the number of the file that describes what has it.
Thing = tuple[str, int]
#: A query, and the number of a folder that holds its progress.
Folder = tuple[str, int]
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
    #: Whether it also works off what there is now of its sources beside brokers.
    to_end: bool = False
    #: Where it begins in a folder that holds nothing yet.
    begins: Positions = field(default_factory=dict)
    #: When that was committed, in milliseconds since the epoch.
    since: int | None = None
    #: The site and folder from which what it keeps is brought over before it starts.
    brought: tuple[str, int] | None = None
    #: Whether the site that held its folder before is known to be down.
    vouched: bool = False

    @property
    def drained(self) -> bool:
        """Whether it reads something to the end before it stops."""
        return self.to_end or bool(self.drains)


@dataclass(frozen=True, slots=True)
class PipelineGoal:
    """What a site shall be for a pipeline."""

    #: By number, the files that its things are of.
    revisions: Mapping[int, Pipeline] = field(default_factory=dict)
    #: By number, the artifact with the code that belongs to a file; none where it has no code.
    code: Mapping[int, str] = field(default_factory=dict)
    #: Where the brokers of other sites are reached, as far as that is known.
    brokers: Mapping[str, str] = field(default_factory=dict)
    #: The file of which its broker is, if it has one.
    serving: int | None = None
    streams: frozenset[Thing] = frozenset()
    #: The streams to be removed.
    dropped: frozenset[Thing] = frozenset()
    jobs: Mapping[str, JobGoal] = field(default_factory=dict)
    #: The folders that the site shall make parcels of, for another site.
    offers: frozenset[Folder] = frozenset()
    #: The parcels that queries start with here, by query: artifacts.
    parcels: Mapping[str, str] = field(default_factory=dict)
    #: Whether somebody looks: what costs traffic, such as lag, is worked out only then.
    watched: bool = False
    #: The number of a file whose queries, these, the site's engines shall look at.
    examined: int | None = None
    queries: frozenset[str] = frozenset()
    #: The number of a file with new readers of streams, these, whose ends are asked for.
    joined: int | None = None
    measured: frozenset[Thing] = frozenset()


@dataclass(frozen=True, slots=True)
class Question:
    """What somebody wants to know of a site right now: the log of a job, records of a stream."""

    pipeline: str
    #: "log" or "records".
    about: str
    #: The job or the stream.
    name: str
    options: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SiteGoal:
    """What a site shall be, by the word of the coordinator of a generation."""

    generation: int
    pipelines: Mapping[str, PipelineGoal] = field(default_factory=dict)
    #: By the name under which each is answered.
    questions: Mapping[str, Question] = field(default_factory=dict)


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
    mode: Mode | None = None
    #: By stream: records that it has not read yet, and how old the oldest of them is, in seconds.
    lag: Mapping[str, int] = field(default_factory=dict)
    behind: Mapping[str, float] = field(default_factory=dict)
    #: By stream: what its receiver counted, where its broker keeps no records.
    received: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: Of a query of several jobs: how far each of them is.
    members: Mapping[str, Progress] = field(default_factory=dict)
    #: How often it was started again because it had failed.
    restarts: int = 0
    #: Whether the goal that this is about says that it runs.
    running: bool = True


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
    #: The folders of which there are parcels, each with its artifact.
    offered: Mapping[Folder, str] = field(default_factory=dict)
    #: The number of the file for which ends were asked, and where streams ended when they were
    #: looked at for it, by partition; those that hold nothing are left out.
    joined: int | None = None
    ends: Mapping[Thing, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SiteReport:
    """What a site is, by an agent that last heard of a coordinator of a generation."""

    site: str
    generation: int = 0
    pipelines: Mapping[str, PipelineReport] = field(default_factory=dict)
    #: What was asked, by the names of the questions: plain data, ready for JSON.
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Depot(Protocol):
    """Where artifacts are, for who needs them. Any thread may call."""

    def fetch(self, artifact: str) -> Path:
        """Return the file of an artifact on this machine, whole; it is brought over once."""
        ...

    def send(self, file: Path) -> str:
        """Make a file an artifact, for other sites to fetch, and return its name."""
        ...


class Link(Depot, Protocol):
    """An agent's way to its coordinator. Any thread may call.

    What raises could not be done now: the agent keeps its site as last told, and tries again.
    """

    def tell(self, report: SiteReport) -> None:
        """Tell what is there."""
        ...

    def goal(self, known: str, wait: float) -> tuple[str, SiteGoal] | None:
        """Return what shall be there, with a sum of it; None where that is `known` for so long."""
        ...
