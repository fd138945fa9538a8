"""Runs a pipeline on this machine: makes it so, keeps it so, and stops it without loss."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from millrace.agent.backoff import Backoff
from millrace.agent.ends import Feeders, complete, feeders, in_drain_order, over
from millrace.agent.fleet import Fleet
from millrace.agent.observe import observed
from millrace.agent.orders import orders, with_partitions, with_schemas
from millrace.agent.places import Places
from millrace.agent.state import Applied, read_applied, write_applied
from millrace.agent.suspects import DEATHS, Lives
from millrace.brokers.kafka import ManagedKafka
from millrace.errors import OperationFailed
from millrace.model.graph import in_order
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.status import JobFacts
from millrace.model.step import Action, Kind, Plan
from millrace.model.stream import Stream
from millrace.plan import plan
from millrace.plan.fuse import as_queries
from millrace.ports import BrokerStatus, JobOrder, JobState, JobStatus

#: Starts of jobs side by side, as many as a driver takes.
STARTERS = 8
#: How often a drain is tried whose job fails meanwhile, and what is not tried again.
DRAINS = 5
_SLOW = ("too-slow", "driver-slow")
_STARTS = (Action.CREATE, Action.CHANGE, Action.MOVE, Action.START)
Say = Callable[[str], None]


@dataclass(slots=True)
class Runner:
    """A pipeline that runs here. `start`, `tick` and `stop` are called by one thread.

    That thread starts all processes, so that they end with it at the latest.
    """

    pipeline: Pipeline
    fleet: Fleet
    code: Path
    say: Say
    facts: Mapping[str, JobFacts] = field(default_factory=dict)
    plan: Plan = field(default_factory=Plan)
    _orders: dict[str, JobOrder] = field(default_factory=dict)
    _backoff: dict[str, Backoff] = field(default_factory=dict)
    _work: dict[str, Future[None]] = field(default_factory=dict)
    _given_up: dict[str, str] = field(default_factory=dict)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(STARTERS))
    restarts: dict[str, int] = field(default_factory=dict)
    _lives: dict[str, Lives] = field(default_factory=dict)
    #: Jobs that ended with their inputs, or after their time; and when each was started first.
    _ended: set[str] = field(default_factory=set)
    _begun: dict[str, float] = field(default_factory=dict)
    #: The pipeline with each query as one job: what is started, stopped and drained.
    queries: Pipeline = field(init=False)
    _writers: Feeders = field(init=False)

    def __post_init__(self) -> None:
        """Find out which jobs are one query."""
        self.queries = as_queries(self.pipeline)
        self._writers = feeders(self.pipeline)

    @property
    def place(self) -> Path:
        """The pipeline's folder."""
        return self.fleet.folders.pipeline(self.pipeline.name)

    def start(self) -> None:
        """Start brokers and drivers, make the streams, start the jobs; raises what fails first.

        Raising promises that nothing of it is left running.
        """
        try:
            self._start()
        except BaseException:
            self.end()
            raise

    def _start(self) -> None:
        self.fleet.launch()
        self.say("starting brokers and Spark")
        serving = [self._pool.submit(broker.start) for broker in self.fleet.brokers.values()]
        applied = read_applied(self.place)
        for future in serving:
            future.result()
        folders = Places(self.fleet.folders, applied, self.pipeline)
        statuses = self._broker_statuses()
        folders.refuse_unread(
            {name: broker.log for name, broker in self.fleet.brokers.items()},
            {name: frozenset(status.streams) for name, status in statuses.items()},
        )
        self._examine(folders.examined())
        seen = observed(applied.pipeline, self.pipeline, statuses)
        self.plan = plan(self.pipeline, seen, self.facts)
        numbers = folders.settled(self.plan, self.facts)
        self._make_streams()
        write_applied(self.place, Applied(self.pipeline, numbers))
        known = with_partitions(with_schemas(self.pipeline, self.facts), self._broker_statuses())
        places = {name: folders.new(name, numbers[name]) for name in self.queries.jobs}
        for order in orders(known, self.fleet.clients(), places, self.code):
            self._orders[order.job.name] = order
        self._start_jobs()

    def _broker_statuses(self) -> dict[str, BrokerStatus]:
        return {name: broker.status() for name, broker in self.fleet.brokers.items()}

    def _examine(self, places: Mapping[str, Path]) -> None:
        """Ask the engines how the jobs would run; a job that can't is found before any starts."""
        found: dict[str, JobFacts] = {}
        known = self.pipeline
        for name, driver in self.fleet.drivers.items():
            jobs = [job for job in in_order(self.queries) if self.fleet.driver(job) is driver]
            driver.wait()
            self.say(f"driver {name} is up{f': {driver.page}' if driver.page else ''}")
            found |= driver.examine(orders(known, self.fleet.clients(), places, self.code, jobs))
            known = with_schemas(self.pipeline, found)
        self.facts = found

    def _make_streams(self) -> None:
        steps = [step for step in self.plan.steps if step.kind is Kind.STREAM]
        kept = [step.name for step in steps if step.action is Action.DELETE]
        if kept:
            self.say(f"left on the broker, though no longer in the file: {', '.join(kept)}")
        made = [step.name for step in steps if step.action is not Action.DELETE]
        by_site: dict[str, list[Stream]] = {}
        for name in dict.fromkeys(made):
            stream = self.pipeline.streams[name]
            by_site.setdefault(stream.site or "", []).append(stream)
        for site, streams in by_site.items():
            broker = self.fleet.brokers.get(site)
            if broker is None:
                raise OperationFailed(
                    "no-broker",
                    f"stream {streams[0].name} is at site {site}, which has no broker",
                    f"write sites.{site}.broker: kafka",
                )
            broker.ensure(*streams)

    def _start_jobs(self) -> None:
        """Start the jobs as the plan says: readers of new streams before their writers."""
        steps = [s for s in self.plan.steps if s.kind is Kind.JOB and s.action in _STARTS]
        wanted = list(dict.fromkeys(step.name for step in steps)) or list(self._orders)
        wanted += [name for name in self._orders if name not in wanted]
        started = [self._pool.submit(self._start_job, name) for name in wanted]
        for future in started:
            future.result()

    def _start_job(self, name: str) -> None:
        order = self._orders[name]
        self.fleet.driver(order.job).start(order)
        self._begun.setdefault(name, time.monotonic())
        self._backoff.setdefault(name, Backoff()).started(time.monotonic())

    def tick(self) -> None:
        """Look once and restart what is not as it shall be; returns soon."""
        now = time.monotonic()
        self._revive(now)
        for name, status in self.statuses().items():
            if status.state is JobState.FAILED and name in self._orders:
                self._restart(name, status, now)
        self._end_jobs(now)

    def _revive(self, now: float) -> None:
        """Start the processes again that ended."""
        for name, broker in self.fleet.brokers.items():
            if isinstance(broker, ManagedKafka) and not broker.alive:
                self._again(f"broker {name}", now, broker.launch)
        for name, driver in list(self.fleet.drivers.items()):
            if not driver.alive and self._again(f"driver {name}", now, driver.launch):
                self._part_suspects(name, now)

    def _end_jobs(self, now: float) -> None:
        """End the jobs that are over, each when it has committed all its input."""
        seconds = {name: now - begun for name, begun in self._begun.items()}
        for job in over(self.queries, self._writers, self._states(), seconds):
            pending = self._work.get(job.name)
            if pending is None or pending.done():
                self._work[job.name] = self._pool.submit(self._end_job, job)

    def _end_job(self, job: Job) -> None:
        try:
            if job.follows:
                self._drain_job(job)
            else:  # a source whose time is over is stopped: there may be no end to what it reads
                self.fleet.driver(job).stop(job.name)
        except OperationFailed as failure:  # it failed, or its driver is away: tried again
            self.say(str(failure))
            return
        self._ended |= {job.name, *(member.name for member in job.members)}
        self.say(f"job {job.name} is over")

    @property
    def complete(self) -> bool:
        """Whether all jobs are over, but for those that were given up."""
        return complete(self.queries, self._states())

    @property
    def given_up(self) -> dict[str, str]:
        """The jobs that failed so that trying again can't help, each with what it failed of."""
        statuses = self.statuses()
        return {
            name: error
            for name, error in self._given_up.items()
            if statuses[name].state is JobState.FAILED
        }

    def _states(self) -> dict[str, JobState]:
        """What each job does; of one that was given up nothing comes any more either."""
        states = {name: status.state for name, status in self.statuses().items()}
        for name in self.given_up:
            job = self.queries.jobs[name]
            states |= dict.fromkeys((name, *(one.name for one in job.members)), JobState.ENDED)
        return states

    def _part_suspects(self, name: str, now: float) -> None:
        """Set jobs apart that may be why a driver died; the others are no longer harmed then."""
        statuses, jobs = self.statuses(), self.fleet.jobs_of(name)
        lives = self._lives.setdefault(name, Lives())
        lives.died(now, {job.name: statuses[job.name].progress.batch for job in jobs})
        for job in lives.suspects(jobs):
            self.say(f"driver {name} ended {DEATHS} times and {job.name} got nowhere: it has a "
                     "driver of its own from now on")  # fmt: skip
            self.fleet.set_apart(job)
            self._work[job.name] = self._pool.submit(self._try_job, job.name)

    def _again(self, what: str, now: float, launch: Callable[[], None]) -> bool:
        """Start something again when its time has come; whether its end is news."""
        backoff = self._backoff.setdefault(what, Backoff())
        news = bool(backoff.since) or not backoff.failures
        if news:
            backoff.failed(now)
            self.say(f"{what} ended; starting it again")
        if backoff.may(now):
            self.restarts[what] = self.restarts.get(what, 0) + 1
            launch()
            backoff.started(now)
        return news

    def _restart(self, name: str, status: JobStatus, now: float) -> None:
        """Start a failed job again, unless it runs on by itself or trying can't help."""
        pending = self._work.get(name)
        if pending is not None and not pending.done():
            return
        backoff = self._backoff.setdefault(name, Backoff())
        if not status.transient:
            if self._given_up.get(name) != status.error:
                self._given_up[name] = status.error
                self.say(f"{status.error} ({status.hint or 'correct it and run again'})")
            return
        if backoff.since or not backoff.failures:
            backoff.failed(now)
            self.say(f"{status.error}{f' ({status.hint})' if status.hint else ''}")
        if backoff.may(now) and self.fleet.driver(self._orders[name].job).alive:
            self.restarts[name] = self.restarts.get(name, 0) + 1
            self._work[name] = self._pool.submit(self._try_job, name)

    def _try_job(self, name: str) -> None:
        try:
            self._start_job(name)
        except OperationFailed as failure:
            self._backoff[name].failed(time.monotonic())
            self.say(str(failure))

    def statuses(self) -> dict[str, JobStatus]:
        """Return what is known of each job, in the file's order."""
        found: dict[str, JobStatus] = {}
        for driver in self.fleet.drivers.values():
            found |= driver.status()
        found |= {
            name: replace(status, state=JobState.ENDED)
            for name, status in found.items()
            if name in self._ended
        }
        unknown = JobStatus(JobState.STARTING)
        return {name: found.get(name, unknown) for name in self.pipeline.jobs}

    def drain(self) -> None:
        """Stop every job when it has committed all its input, in the direction of the data.

        A job that fails meanwhile is started again. Raises for the first that could not be drained,
        when all others are.
        """
        failures = []
        for job in in_drain_order(self.queries, self._writers):
            try:
                self._drain_surely(job)
            except OperationFailed as failure:
                self.say(str(failure))
                failures.append(failure)
        if failures:
            raise failures[0]

    def _drain_surely(self, job: Job) -> None:
        for left in reversed(range(DRAINS)):
            if (pending := self._work.get(job.name)) is not None:
                pending.result()
            if job.name in self._ended:
                return
            try:
                self._drain_job(job)
            except OperationFailed as failure:
                if not left or not failure.transient or failure.code in _SLOW:
                    raise
                self.say(str(failure))
                self._start_again(job.name)
            else:
                return

    def _start_again(self, name: str) -> None:
        """Start a job that is not drained, when its time has come."""
        backoff, now = self._backoff.setdefault(name, Backoff()), time.monotonic()
        if backoff.since or not backoff.failures:
            backoff.failed(now)
        time.sleep(max(backoff.not_before - now, 0.0))
        self._revive(time.monotonic())
        self.restarts[name] = self.restarts.get(name, 0) + 1
        self._try_job(name)

    def _drain_job(self, job: Job) -> None:
        status = self.statuses()[job.name]
        if status.state is JobState.FAILED:
            raise OperationFailed(
                "not-drained",
                f"job {job.name} was not drained: {status.error}",
                status.hint,
                transient=status.transient,
            )
        self.fleet.driver(job).stop(job.name, {name: self._log_ends(name) for name in job.follows})

    def _log_ends(self, name: str) -> dict[int, int]:
        """Where a stream ends; partitions that hold nothing are left out."""
        stream = self.pipeline.streams[name]
        spans = self.fleet.brokers[stream.site or ""].log.ends(stream.address)
        return {part: span.end for part, span in spans.items() if span.end > span.first}

    def end(self) -> None:
        """Stop all jobs as planned and end every process; brokers last, for jobs write to them."""
        list(self._pool.map(lambda driver: driver.close(), self.fleet.drivers.values()))
        list(self._pool.map(lambda broker: broker.stop(), self.fleet.brokers.values()))
        self._pool.shutdown(wait=False, cancel_futures=True)

    def kill(self) -> None:
        """End every process at once; the next start finds what was written."""
        for driver in self.fleet.drivers.values():
            driver.kill()
        for broker in self.fleet.brokers.values():
            broker.stop()
