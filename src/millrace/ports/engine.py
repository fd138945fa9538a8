"""An engine: what executes jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from millrace.model.job import Job, Mode
from millrace.model.pipeline import Pipeline
from millrace.model.status import JobFacts


class JobState(StrEnum):
    """What a job does now, as its engine sees it."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"
    ENDED = "ended"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Fates:
    """The ledger of a job: what became of each record that it read. None is unknown.

    `read` is the sum of the others that are known; `lost_sight` are records that were read while
    nobody could count their fates (the engine was killed between a commit and its report).
    """

    read: int = 0
    used: int = 0
    filtered: int | None = None
    malformed: int = 0
    late: int = 0
    dropped: int = 0
    lost_sight: int = 0
    written: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is, as of its last boundary."""

    batch: int = -1
    #: When the batch ended, in seconds since the epoch.
    at: float = 0.0
    #: By stream and partition: the position up to which input is committed.
    positions: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    rows_per_second: float = 0.0
    batch_seconds: float = 0.0
    fates: Fates = field(default_factory=Fates)
    #: How long after its own time a record came to the broker, in the mean of a batch; None where
    #: the job goes by no such time.
    skew_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class JobOrder:
    """All that an engine needs to run a job.

    `pipeline` holds the job, its streams with their schemas, and their sites; `brokers` how each
    site's broker is reached, by the names of its Java client's settings, and `writers` the same for
    writing in transactions, by librdkafka's; `place` is where the job keeps
    its progress; `code` the folder of the user's modules.
    """

    pipeline: Pipeline
    job: Job
    brokers: Mapping[str, Mapping[str, str]]
    place: Path
    code: Path
    #: The jobs of its query in the direction of the data, itself first; none where it is alone.
    fused: tuple[Job, ...] = ()
    #: The streams between them, which are on no broker.
    inside: frozenset[str] = frozenset()
    writers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """All jobs of the query, in the direction of the data."""
        return self.fused or (self.job,)


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job as its engine sees it."""

    state: JobState
    mode: Mode | None = None
    reasons: tuple[str, ...] = ()
    progress: Progress = field(default_factory=Progress)
    error: str = ""
    hint: str = ""
    #: Whether trying again can help.
    transient: bool = True
    #: The engine's own name for this run of it; another one after each start.
    run: str = ""


class Engine(Protocol):
    """Executes jobs at a site."""

    def examine(self, orders: Sequence[JobOrder]) -> Mapping[str, JobFacts]:
        """Find out, without starting anything, how the jobs would run.

        Orders come in the direction of the data; a stream without a schema takes the one that its
        writer among them has. Raises for the first job that can't run, with the way out.
        """
        ...

    def start(self, order: JobOrder) -> None:
        """Run a job from its own progress, or from its beginning where it has none.

        Returning promises that its query reads, or waits for records, as far as the engine can
        tell soon; a job that runs already is left alone. Raising promises that it does not run.
        """
        ...

    def stop(self, job: str, ends: Mapping[str, Mapping[int, int]] | None = None) -> None:
        """Stop a job so that its successor loses nothing and repeats nothing.

        With `ends`, by stream and partition, all input up to there is committed first.
        """
        ...

    def status(self) -> Mapping[str, JobStatus]:
        """Return what is known of each job that was started; never blocks for long."""
        ...

    def close(self) -> None:
        """End the engine and all it runs, as a planned stop of every job."""
        ...

    def kill(self, grace: float = 0.0) -> None:
        """End all that it runs, at the latest after `grace` seconds; a stop on its way fails then.

        What was written is found by a later start.
        """
        ...


@dataclass(frozen=True, slots=True)
class EngineOrder:
    """All that a plug-in needs to make an engine of a site."""

    pipeline: str
    site: str
    #: Where it may keep its things, and tell what it does (`driver.log`).
    place: Path
    #: What all sites of this machine share: things that were fetched once.
    cache: Path
    #: Where one that is already there is reached; None is one that is started here.
    address: str | None = None
    #: Whose workers it takes, where it has a master of its own.
    master: str | None = None
    #: As the file has them, with secrets in the place of references.
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: Whether it is for a program of the user's alone.
    program: bool = False


class EnginePlugin(Protocol):
    """What a package offers as an entry point of the group `millrace.engines`."""

    def engine(self, order: EngineOrder) -> Engine:
        """Return an engine, not started: it starts with its first job, or when it is asked.

        Raises, with the way out, for options that it does not know and for what is not installed.
        """
        ...
