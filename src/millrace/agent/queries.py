"""The queries of a pipeline at a site: started, stopped, started again, and told of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from millrace.agent.generations import Generations
from millrace.agent.making import Surroundings, Workshop
from millrace.errors import OperationFailed
from millrace.model.job import Job
from millrace.plan.fuse import as_queries
from millrace.ports import Engine, JobState, JobStatus, Progress
from millrace.ports.link import Folder, JobGoal, JobReport, PipelineGoal

Work = Callable[[], None]
#: Less than a coordinator waits before it starts a query elsewhere.
CUT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class _Run:
    """A query that was started here and not stopped since."""

    generation: int
    engine: Engine


@dataclass(slots=True)
class Queries:
    """What runs; work is done by a pool, one piece for each query at a time."""

    workshop: Workshop
    generations: Generations
    #: For how many seconds nobody renewed the leases of queries.
    unheard: Callable[[], float] = lambda: 0.0
    #: How long the stop of a query may take whose lease has run out; then its engine is ended.
    cut_seconds: float = CUT_SECONDS
    goal: PipelineGoal = field(default_factory=PipelineGoal)
    runs: dict[str, _Run] = field(default_factory=dict)
    #: By query: the records behind it, by stream; while somebody looks.
    lags: dict[str, dict[str, int]] = field(default_factory=dict)
    #: By query and stream: what receivers counted; while somebody looks.
    received: dict[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    offered: dict[Folder, str] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)
    _rests: dict[str, tuple[JobGoal, Mapping[str, Progress]]] = field(default_factory=dict)
    #: The queries of the goal's files.
    _jobs: dict[int, Mapping[str, Job]] = field(default_factory=dict)

    def statuses(self) -> dict[str, JobStatus]:
        """Return what engines say of the queries that run; each engine is asked once."""
        runs = dict(self.runs)
        engines = {id(run.engine): run.engine for run in runs.values()}
        said = {name: engine.status() for name, engine in engines.items()}
        return {name: said[id(run.engine)].get(name, _lost(name)) for name, run in runs.items()}

    def wrong(self, name: str, statuses: Mapping[str, JobStatus]) -> Work | None:
        """Return what is to be done about a query, if anything is."""
        run, goal = self.runs.get(name), self.goal.jobs.get(name)
        if goal is not None and goal.running and self._run_out(name, goal):
            return (lambda: self._give_up(name)) if run is not None else None
        if goal is None or not goal.running:
            if run is not None:
                return lambda: self._stop(name, goal)
            return None if goal is None or self._at_rest(name, goal) else self._again(name, goal)
        if run is not None and run.generation != goal.generation:
            return lambda: self._stop(name, None)
        if run is None or self.failed(name, statuses):
            return lambda: self._start(name, goal)
        return None

    def _run_out(self, name: str, goal: JobGoal) -> bool:
        """Whether the lease of a query has run out: it may start elsewhere, so it stops here."""
        lease = self.query(goal.revision, name).lease
        return lease is not None and self.unheard() > lease

    def failed(self, name: str, statuses: Mapping[str, JobStatus]) -> bool:
        """Whether a query that shall run has failed, and trying again can help."""
        status = statuses.get(name)
        return status is not None and status.state is JobState.FAILED and status.transient

    def _at_rest(self, name: str, goal: JobGoal) -> bool:
        """Whether a query that does not run has read what it was to read before it stopped."""
        return not goal.drained or self.generations.drained(name, goal.generation)

    def _again(self, name: str, goal: JobGoal) -> Work:
        """Start a query that ended before it had read all: its stop then reads to the end."""
        return lambda: self._start(name, goal)

    def _start(self, name: str, goal: JobGoal) -> None:
        file = self.goal.revisions[goal.revision]
        self.generations.claim(name, goal.generation)
        engine = self.workshop.engine(file, name)
        # What was handed over of it before is not what it is after this start.
        self.offered = {it: artifact for it, artifact in self.offered.items() if it[0] != name}
        engine.start(self.workshop.order(file, name, goal, self.around(goal.revision, name)))
        self.runs[name] = _Run(goal.generation, engine)

    def around(self, number: int, query: str) -> Surroundings:
        """Return what a query of a file needs to know of other sites."""
        goal = self.goal
        return Surroundings(goal.brokers, goal.code.get(number), goal.parcels.get(query))

    def _give_up(self, name: str) -> None:
        """Stop a query that may start elsewhere soon; where it takes too long, its engine ends."""
        cut = threading.Timer(self.cut_seconds, self.runs[name].engine.kill)
        cut.daemon = True
        cut.start()
        try:
            self._stop(name, None)
        finally:
            cut.cancel()

    def _stop(self, name: str, goal: JobGoal | None) -> None:
        """Stop a query; what it shall read to the end is looked up when that is ordered."""
        ends = None
        if goal is not None and goal.drained:
            file, around = self.goal.revisions[goal.revision], self.around(goal.revision, name)
            reads = file.jobs[name].jar is None  # how far a program is only it knows
            if reads and self.failed(name, self.statuses()):
                self._start(name, goal)
                self.restarts[name] = self.restarts.get(name, 0) + 1
            ends = {stream: self.workshop.ends(file, stream, around) for stream in goal.drains}
        self.runs[name].engine.stop(name, ends)
        if goal is not None and goal.drained:
            self.generations.note_drained(name, goal.generation)
        self._rests.pop(name, None)
        del self.runs[name]

    def offer(self, folder: Folder) -> None:
        """Hand over what a query keeps; raises while it still runs here."""
        query, number = folder
        if query in self.runs:
            raise OperationFailed("runs", f"{query} runs here still", transient=True)
        self.offered[folder] = self.workshop.parcel(query, number)

    def report(
        self,
        name: str,
        statuses: Mapping[str, JobStatus],
        failure: OperationFailed | None,
        *,
        pending: bool,
    ) -> JobReport:
        """Return what is told of a query of the goal.

        `failure` is what was tried in vain last; while work is `pending` nobody says that the
        query stands still: it may just be starting.
        """
        told = self._told(name, statuses, failure)
        goal = self.goal.jobs[name]
        if pending and told.state is JobState.STOPPED:
            told = JobReport(goal.generation, JobState.STARTING)
        return replace(told, restarts=self.restarts.get(name, 0), running=goal.running)

    def _told(
        self, name: str, statuses: Mapping[str, JobStatus], failure: OperationFailed | None
    ) -> JobReport:
        run, goal = self.runs.get(name), self.goal.jobs[name]
        if run is not None and name in statuses:
            return self._running(name, goal, run, statuses[name])
        if failure is not None:
            still = JobState.RUNNING if goal.drained else JobState.STOPPED
            state = JobState.FAILED if goal.running else still
            told = JobStatus(state, error=failure.message, hint=failure.hint,
                             transient=failure.transient)  # fmt: skip
            return _report(goal.generation, told)
        if goal.running or not self._at_rest(name, goal):
            return JobReport(goal.generation, JobState.STARTING)
        known = self._rest(name, goal)
        members = {one: known[one] for one in self._members(goal.revision, name) if one in known}
        progress = known.get(name, Progress())
        return JobReport(goal.generation, JobState.STOPPED, progress=progress, members=members)

    def _running(self, name: str, goal: JobGoal, run: _Run, status: JobStatus) -> JobReport:
        members = self._members(goal.revision, name)
        said = run.engine.status() if members else {}
        return replace(
            _report(run.generation, status),
            members={one: said[one].progress for one in members if one in said},
            lag=self.lags.get(name, {}) if self.goal.watched else {},
            received=self.received.get(name, {}) if self.goal.watched else {},
        )

    def _rest(self, name: str, goal: JobGoal) -> Mapping[str, Progress]:
        """How far a query was that does not run: read once, for nothing moves there."""
        known = self._rests.get(name)
        if known is None or known[0] != goal:
            file = self.goal.revisions[goal.revision]
            try:
                known = (goal, self.workshop.progress(file, name, goal))
            except OperationFailed:  # it has no place of its own: it never got anywhere
                known = (goal, {})
            self._rests[name] = known
        return known[1]

    def _members(self, number: int, query: str) -> tuple[str, ...]:
        """The jobs of a query of several."""
        return tuple(one.name for one in self.query(number, query).members)

    def query(self, number: int, name: str) -> Job:
        """Return a query of a file of the goal."""
        if number not in self._jobs:
            kept = {
                known: jobs for known, jobs in self._jobs.items() if known in self.goal.revisions
            }
            jobs = as_queries(self.goal.revisions[number]).jobs
            self._jobs = {**kept, number: jobs}
        return self._jobs[number][name]


def _lost(name: str) -> JobStatus:
    """What is said of a query that was started and that its engine does not know any more."""
    return JobStatus(JobState.FAILED, error=f"job {name} has no driver any more")


def _report(generation: int, status: JobStatus) -> JobReport:
    return JobReport(
        generation,
        status.state,
        status.run,
        status.progress,
        status.error,
        status.hint,
        status.transient,
        status.mode,
    )
