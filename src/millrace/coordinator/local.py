"""One pipeline on this machine, for as long as its process: what `millrace run` does.

It is a coordinator with one pipeline and an agent for all of its sites, whom nobody else reaches.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from millrace.agent.agent import Agent
from millrace.agent.continues import going_inside, refuse_unread
from millrace.agent.ends import feeders, in_drain_order
from millrace.agent.fleet import Told
from millrace.agent.keeper import Keeper
from millrace.agent.making import Workshop
from millrace.agent.state import Applied, write_applied
from millrace.agent.workshops import Workshops
from millrace.coordinator.board import Board
from millrace.coordinator.ends import state_of
from millrace.coordinator.home import holder
from millrace.coordinator.kept import kept
from millrace.coordinator.operation import OperationState
from millrace.coordinator.revision import Submission
from millrace.coordinator.rounds import Bell, Rounds
from millrace.coordinator.service import Clocks, Coordinator
from millrace.coordinator.sites import is_local
from millrace.coordinator.tenure import Around, Tenure, take
from millrace.errors import OperationFailed
from millrace.machine import Folders
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.site import Site
from millrace.plan.fuse import as_queries
from millrace.ports import JobState, JobStatus, Log
from millrace.ports.link import JobReport
from millrace.stores.artifacts import Artifacts, LocalDepot
from millrace.stores.sqlite import SqliteStore

#: What may well be wrong while things start side by side, and rights itself.
_WAITS = frozenset({"no-site", "no-parcel", "runs"})
#: So often a query may fail at its start for something that may pass.
_TRIES = 3
_STARTING = JobStatus(JobState.STARTING)
_PAUSE_SECONDS = 0.05
#: How often a drain is tried whose job fails meanwhile, and what is not tried again.
DRAINS = 5
_SLOW = ("too-slow", "driver-slow")


@dataclass(slots=True)
class LocalRun:
    """A pipeline that runs here. `start`, `tick`, `drain` and `end` are called by one thread."""

    pipeline: Pipeline
    tenure: Tenure
    folders: Folders
    workshop: Callable[[str, str], Workshop]
    place: Callable[[str, str], Path]
    say: Callable[[str], None]
    queries: Pipeline = field(init=False)
    _coordinator: Coordinator = field(init=False)
    _agent: Agent = field(init=False)
    _rounds: Rounds = field(init=False)
    _bell: Bell = field(default_factory=Bell)
    #: What was said of each job last: its error, or that it is over.
    _news: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find out which jobs are one query, and what was there when the last run ended."""
        self.queries = as_queries(self.pipeline)
        clocks = Clocks(time.time, time.monotonic)
        self._coordinator = Coordinator(
            self.tenure, clocks, wake=self._bell.ring, failures_end=True
        )
        self._agent = Agent(
            self.workshop, self.place, allowed=self.tenure.check, wake=self._bell.ring
        )
        self._rounds = Rounds(
            self._coordinator,
            self._agent,
            self._bell,
            lambda _, g: g,
            lambda _, __: True,
            lambda: None,
        )

    @property
    def board(self) -> Board:
        """The pipeline as the coordinator knows it."""
        return self._coordinator.board(self.pipeline.name)

    def start(self) -> None:
        """Make the pipeline run as its file says; raises what fails first.

        Raising promises that nothing of it is left running.
        """
        try:
            self._start()
        except BaseException:
            self.end()
            raise

    def _start(self) -> None:
        self._rest()
        self.say("starting brokers and Spark")
        wanted = Submission(
            self.pipeline, by="millrace run", state_loss=True, keeps=True, anew=True
        )
        begun = self._coordinator.apply(wanted)
        while not (now := self._coordinator.operation(begun.id)).state.over:
            self._round()
            self._raise_failures()
        if now.state is not OperationState.DONE:
            raise OperationFailed("not-started", now.reason)
        self._say_kept()
        numbers = {name: placed.goal.folder for name, placed in self.board.deployment.jobs.items()}
        known = {**self.board.deployment.folders, **numbers}
        places = {name: number for name, number in known.items() if name in self.pipeline.jobs}
        write_applied(self.folders.pipeline(self.pipeline.name), Applied(self.pipeline, places))

    def _rest(self) -> None:
        """Nothing runs when a run begins, whatever was there when the last one ended."""
        before = self._coordinator.boards.get(self.pipeline.name)
        if before is None:
            return
        at_rest = before.at_rest()
        self._coordinator.take(at_rest)
        while self._reports().keys() != at_rest.deployment.jobs.keys():
            self._round()
            self._raise_failures()
        after = self.board.noted(self._coordinator.roster.reports(self.pipeline.name))
        self.tenure.commit(kept(after, before))
        self._coordinator.take(after)
        self._refuse_unread(after)

    def _refuse_unread(self, board: Board) -> None:
        """Raise where a stream goes inside a query and holds what its readers have not read."""
        applied = board.file
        known = {**board.deployment.inside, **board.deployment.jobs}
        for name, readers in going_inside(applied, self.pipeline).items():
            stream = applied.streams[name]
            keeper = self._keeper(stream.site or "")
            broker = keeper.workshop.broker(applied)
            broker.start()
            if stream.address not in broker.status().streams:
                continue
            ends = broker.log.ends(stream.address)
            for job in readers:
                reached = known[job].reached if job in known else {}
                refuse_unread(name, job, reached.get(name, {}), ends)

    def _say_kept(self) -> None:
        left = sorted({n for n, _ in self.board.deployment.streams} - self.queries.streams.keys())
        if left:
            self.say(f"left on the broker, though no longer in the file: {', '.join(left)}")

    def _raise_failures(self) -> None:
        """What can't be started ends the run: somebody sits in front of it."""
        for keeper in self.keepers:
            for (kind, name), failure in keeper.failures.items():
                again = kind == "job" and failure.transient and keeper.tries(name) < _TRIES
                if failure.code not in _WAITS and not again:
                    raise failure

    def _round(self) -> None:
        self._rounds.round()
        self._bell.pause(_PAUSE_SECONDS)

    @property
    def keepers(self) -> list[Keeper]:
        """Who keeps each site."""
        return self._agent.keepers

    def tick(self) -> None:
        """Look once and do what is missing; returns soon."""
        self._rounds.round()
        for name, report in self._reports().items():
            self._tell(name, report)

    def _tell(self, name: str, report: JobReport) -> None:
        """Say what is new of a query: why it failed, or that it is over."""
        placed = self.board.deployment.jobs.get(name)
        over = placed is not None and placed.ended and report.state is JobState.STOPPED
        news = "over" if over or report.state is JobState.ENDED else report.error
        if news and self._news.get(name) != news:
            way = f" ({report.hint})" if report.hint else ""
            self.say(f"job {name} is over" if news == "over" else f"{news}{way}")
        self._news[name] = news

    def _reports(self) -> dict[str, JobReport]:
        reports = self._coordinator.roster.reports(self.pipeline.name)
        return {name: job for report in reports.values() for name, job in report.jobs.items()}

    @property
    def restarts(self) -> dict[str, int]:
        """How often queries were started again because they had failed."""
        return {name: job.restarts for name, job in self._reports().items() if job.restarts}

    def statuses(self) -> dict[str, JobStatus]:
        """Return what is known of each job, in the file's order."""
        found: dict[str, JobStatus] = {}
        reports = self._reports()
        for name, query in self.queries.jobs.items():
            if (report := reports.get(name)) is None:
                continue
            status = _status(report, self._state(name, report))
            for job in query.members or (query,):
                progress = report.members.get(job.name, report.progress)
                found[job.name] = replace(status, progress=progress)
        return {name: found.get(name, _STARTING) for name in self.pipeline.jobs}

    def _state(self, name: str, report: JobReport) -> JobState:
        placed = self.board.deployment.jobs.get(name)
        over = placed is not None and placed.ended and report.state is JobState.STOPPED
        return JobState.ENDED if over else report.state

    @property
    def given_up(self) -> dict[str, str]:
        """The queries that failed so that trying again can't help, each with what it failed of."""
        return {
            name: job.error
            for name, job in self._reports().items()
            if job.state is JobState.FAILED and not job.transient
        }

    @property
    def complete(self) -> bool:
        """Whether all jobs are over, but for those that were given up."""
        reports = self._coordinator.roster.reports(self.pipeline.name)
        jobs = self.queries.jobs
        return bool(jobs) and all(
            state_of(self.board, name, reports) is JobState.ENDED for name in jobs
        )

    def log(self, stream: str) -> Log:
        """Return the log that holds a stream."""
        keeper = self._keeper(self.pipeline.streams[stream].site or "")
        return keeper.workshop.broker(self.pipeline).log

    def drain(self) -> None:
        """Stop every job when it has committed all its input, in the direction of the data.

        A job that fails meanwhile is started again. Raises for the first that could not be drained,
        when all others are.
        """
        failures = []
        for job in in_drain_order(self.queries, feeders(self.pipeline)):
            try:
                self._drain_job(job)
            except OperationFailed as failure:
                self.say(str(failure))
                failures.append(failure)
        if failures:
            raise failures[0]

    def _drain_job(self, job: Job) -> None:
        board, keeper = self.board, self._keeper(job.site or "")
        placed = board.deployment.jobs[job.name]
        if (error := self.given_up.get(job.name)) is not None:
            why, hint = f"job {job.name} was not drained: {error}", self._reports()[job.name].hint
            raise OperationFailed("not-drained", why, hint)
        if not placed.ended:
            goal = replace(placed.goal, running=False, drains=tuple(job.follows), to_end=True)
            deployment = board.deployment.with_job(job.name, replace(placed, goal=goal))
            self._coordinator.take(replace(board, deployment=deployment))
        try:
            self._until_stopped(job.name, keeper)
        except OperationFailed:
            keeper.give_up(job.name)
            raise

    def _until_stopped(self, name: str, keeper: Keeper) -> None:
        """Wait for a query to have read all its input; raises where trying again can't help."""
        said: OperationFailed | None = None
        while self._reports()[name].state not in (JobState.STOPPED, JobState.ENDED):
            self._round()
            failure = keeper.failures.get(("job", name))
            if failure is None:
                continue
            if not failure.transient or failure.code in _SLOW or keeper.tries(name) >= DRAINS:
                raise failure
            if failure is not said:  # each try is told
                said = failure
                self.say(str(failure))

    def _keeper(self, site: str) -> Keeper:
        return next(keeper for keeper in self.keepers if keeper.site == site)

    def end(self) -> None:
        """Stop all jobs as planned and end every process; brokers last, for jobs write to them."""
        self._agent.close()
        self.tenure.store.close()

    def kill(self) -> None:
        """End every process at once; the next start finds what was written."""
        self._agent.kill()


def _status(report: JobReport, state: JobState) -> JobStatus:
    return JobStatus(
        state,
        report.mode,
        (),
        report.progress,
        report.error,
        report.hint,
        report.transient,
        report.run,
    )


def local_run(
    pipeline: Pipeline,
    folders: Folders,
    code: Path,
    say: Callable[[str], None],
    told: Told | None = None,
) -> LocalRun:
    """Return a run of a pipeline with what this machine has; `told` hears how far the jars are.

    Its folder must be held already (see `state.alone`): then whoever had its state is gone.
    """
    for site in pipeline.sites.values():
        _only_here(site)
    store = SqliteStore(folders.pipeline(pipeline.name) / "state.db", warn=say)
    around = Around(lambda _: False, time.monotonic, time.sleep)
    tenure = take(store, holder(), around)
    depot = LocalDepot(Artifacts(folders.pipeline(pipeline.name) / "artifacts"))
    shops = Workshops(folders, depot, told, say, code)
    return LocalRun(pipeline, tenure, folders, shops.workshop, shops.place, say)


def _only_here(site: Site) -> None:
    if not is_local(site):
        raise OperationFailed(
            "elsewhere",
            f"site {site.name} is not this machine ({site.pilot or site.host})",
            "millrace run runs a pipeline here; choose a profile whose sites are local "
            "(--profile laptop)",
        )
