"""Keeps a site as it shall be for one pipeline: looks, does what is missing, reports.

Nothing here waits: what takes long runs in a pool, one piece of work for each thing at a time. What
fails is tried again later and later; what can't work by itself is only reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Protocol

from millrace.agent.backoff import Backoff
from millrace.agent.generations import Generations
from millrace.errors import OperationFailed
from millrace.model.pipeline import Pipeline
from millrace.model.status import JobFacts
from millrace.ports import Broker, Engine, JobOrder, JobState, JobStatus, Progress
from millrace.ports.link import JobGoal, JobReport, PipelineGoal, PipelineReport, Thing

#: A thing that work is about: its kind and name.
Key = tuple[str, str]
Work = Callable[[], None]
#: How often a broker is looked at.
LOOK_SECONDS = 2.0


class Workshop(Protocol):
    """What a site is made of, made when it is first needed."""

    def broker(self, file: Pipeline) -> Broker:
        """Return the site's broker by a file."""
        ...

    def engine(self, file: Pipeline, query: str) -> Engine:
        """Return the engine that runs a query, up and ready."""
        ...

    def order(self, file: Pipeline, query: str, goal: JobGoal | None) -> JobOrder:
        """Return all that an engine needs for a query; its folder is ready to begin in.

        Without a goal it is only looked at, where nothing is kept.
        """
        ...

    def ends(self, file: Pipeline, stream: str) -> dict[int, int]:
        """Return where a stream ends now, of whatever site."""
        ...

    def progress(self, file: Pipeline, query: str, goal: JobGoal) -> Progress:
        """Return how far a query was that does not run."""
        ...


@dataclass(frozen=True, slots=True)
class _Run:
    """A query that was started here and not stopped since."""

    generation: int
    engine: Engine


@dataclass(frozen=True, slots=True)
class _Examined:
    """What engines found out about queries of a file, and why some can't run."""

    number: int | None = None
    queries: frozenset[str] = frozenset()
    facts: Mapping[str, JobFacts] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Keeper:
    """One pipeline at one site. `tell`, `tick` and `report` are called by one thread."""

    workshop: Workshop
    generations: Generations
    pool: Executor
    clock: Callable[[], float]
    goal: PipelineGoal = field(default_factory=PipelineGoal)
    _runs: dict[str, _Run] = field(default_factory=dict)
    _broker: Broker | None = None
    #: Where it is reached, and when it was looked at last.
    _address: str = ""
    _looked: float = 0.0
    _ensured: set[Thing] = field(default_factory=set)
    _gone: set[Thing] = field(default_factory=set)
    _examined: _Examined = field(default_factory=_Examined)
    _busy: dict[Key, Future[None]] = field(default_factory=dict)
    _backoff: dict[Key, Backoff] = field(default_factory=dict)
    _failures: dict[Key, OperationFailed] = field(default_factory=dict)

    def tell(self, goal: PipelineGoal) -> None:
        """Take a new goal; what failed for good under the old one may be tried again."""
        for name, job in goal.jobs.items():
            if self.goal.jobs.get(name) != job:
                self._failures.pop(("job", name), None)
                self._backoff.pop(("job", name), None)
        self.goal = goal

    def tick(self) -> None:
        """Begin what is missing; returns at once."""
        now = self.clock()
        for key, work in self._missing():
            pending, failure = self._busy.get(key), self._failures.get(key)
            if pending is not None and not pending.done():
                continue
            if failure is not None and not failure.transient:
                continue
            if self._backoff.setdefault(key, Backoff()).may(now):
                self._busy[key] = self.pool.submit(self._try, key, work)

    def _try(self, key: Key, work: Work) -> None:
        try:
            work()
        except OperationFailed as failure:
            self._failures[key] = failure
            self._backoff[key].failed(self.clock())
        else:
            self._failures.pop(key, None)
            self._backoff[key].started(self.clock())

    def _missing(self) -> Iterator[tuple[Key, Work]]:
        """What is not as it shall be."""
        goal = self.goal
        if goal.serving is not None and self._broker is None:
            yield ("broker", ""), lambda: self._serve(goal.serving or 0)
        elif goal.serving is None and self._broker is not None:
            yield ("broker", ""), self._end_broker
        elif self._broker is not None and self.clock() - self._looked > LOOK_SECONDS:
            yield ("broker", ""), self._look
        for thing in sorted(goal.streams - self._ensured):
            yield ("stream", thing[0]), lambda thing=thing: self._ensure(thing)  # type: ignore[misc]
        for thing in sorted(goal.dropped - self._gone):
            yield ("stream", thing[0]), lambda thing=thing: self._drop(thing)  # type: ignore[misc]
        asked, known = goal.examined, self._examined
        if asked is not None and (known.number != asked or not goal.queries <= known.queries):
            yield ("examine", ""), lambda: self._examine(asked, goal.queries)
        for name in sorted({*goal.jobs, *self._runs}):
            if (work := self._job(name, goal.jobs.get(name))) is not None:
                yield ("job", name), work

    def _job(self, name: str, goal: JobGoal | None) -> Work | None:
        """What is to be done about a query, if anything is."""
        run = self._runs.get(name)
        if goal is None or not goal.running:
            return (lambda: self._stop(name, goal)) if run is not None else None
        if run is not None and run.generation != goal.generation:
            return lambda: self._stop(name, None)
        if run is None:
            return lambda: self._start(name, goal)
        status = run.engine.status().get(name)
        if status is not None and status.state is JobState.FAILED and status.transient:
            return lambda: self._start(name, goal)
        return None

    def _examine(self, number: int, queries: frozenset[str]) -> None:
        """Ask engines about queries; raises where that may work later."""
        file = self.goal.revisions[number]
        facts: dict[str, JobFacts] = {}
        refused: dict[str, str] = {}
        for name in sorted(queries):
            try:
                engine = self.workshop.engine(file, name)
                facts |= engine.examine([self.workshop.order(file, name, None)])
            except OperationFailed as failure:
                if failure.transient:
                    raise
                refused[name] = str(failure)
        self._examined = _Examined(number, queries, facts, refused)

    def _serve(self, number: int) -> None:
        broker = self.workshop.broker(self.goal.revisions[number])
        broker.start()
        self._broker = broker
        self._look()

    def _look(self) -> None:
        """See whether the broker serves; one that ended is started again."""
        if self._broker is None:
            return
        status = self._broker.status()
        if not status.up:
            self._broker.start()
            status = self._broker.status()
        self._address, self._looked = status.address, self.clock()

    def _end_broker(self) -> None:
        if self._broker is not None:
            self._broker.stop()
        self._broker = None
        self._ensured.clear()

    def _ensure(self, thing: Thing) -> None:
        file = self.goal.revisions[thing[1]]
        broker = self.workshop.broker(file)
        broker.start()
        broker.ensure(file.streams[thing[0]])
        self._ensured = {one for one in self._ensured if one[0] != thing[0]} | {thing}
        self._gone.discard(thing)

    def _drop(self, thing: Thing) -> None:
        file = self.goal.revisions[thing[1]]
        self.workshop.broker(file).drop(file.streams[thing[0]])
        self._ensured.discard(thing)
        self._gone.add(thing)

    def _start(self, name: str, goal: JobGoal) -> None:
        file = self.goal.revisions[goal.revision]
        self.generations.claim(name, goal.generation)
        engine = self.workshop.engine(file, name)
        engine.start(self.workshop.order(file, name, goal))
        self._runs[name] = _Run(goal.generation, engine)

    def _stop(self, name: str, goal: JobGoal | None) -> None:
        """Stop a query; what it shall read to the end is looked up when that is ordered."""
        run, ends = self._runs[name], None
        if goal is not None and goal.drains:
            file = self.goal.revisions[goal.revision]
            ends = {stream: self.workshop.ends(file, stream) for stream in goal.drains}
        run.engine.stop(name, ends)
        del self._runs[name]

    def report(self) -> PipelineReport:
        """Return what is there; never waits."""
        goal, serving, known = self.goal, self._broker, self._examined
        told = known if known.number == goal.examined else _Examined()
        errors = {
            name: str(failure) for (kind, name), failure in self._failures.items() if kind != "job"
        }
        return PipelineReport(
            self._address if serving is not None else None,
            frozenset(goal.streams & self._ensured),
            frozenset(goal.dropped & self._gone),
            {name: self._reported(name, job) for name, job in goal.jobs.items()},
            errors,
            told.number,
            told.facts,
            told.refused,
        )

    def _reported(self, name: str, goal: JobGoal) -> JobReport:
        run, failure = self._runs.get(name), self._failures.get(("job", name))
        if run is not None:
            status = run.engine.status().get(name, JobStatus(JobState.STARTING))
            return _report(run.generation, status)
        if failure is not None:
            state = JobState.FAILED if goal.running else JobState.RUNNING
            told = JobStatus(state, error=failure.message, hint=failure.hint,
                             transient=failure.transient)  # fmt: skip
            return _report(goal.generation, told)
        if goal.running:
            return JobReport(goal.generation, JobState.STARTING)
        file = self.goal.revisions[goal.revision]
        progress = self.workshop.progress(file, name, goal)
        return JobReport(goal.generation, JobState.STOPPED, progress=progress)


def _report(generation: int, status: JobStatus) -> JobReport:
    return JobReport(
        generation,
        status.state,
        "",
        status.progress,
        status.error,
        status.hint,
        status.transient,
    )
