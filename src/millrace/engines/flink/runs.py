"""The jobs that an engine has started or found, and what was last seen of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from threading import Condition
from typing import Final

from millrace.engines.flink import states
from millrace.engines.flink.rest import SeenJob
from millrace.ports import Fates, JobOrder, JobState, JobStatus, Progress

#: So long a job may be missing from the overview of a cluster that has just come back.
ABSENT_SECONDS: Final = 3.0
#: A job that fails so often in a row, each time within so many seconds, is not started again.
QUICK_FAILURES, QUICK_SECONDS = 3, 60.0
_LIVING: Final = (JobState.STARTING, JobState.RUNNING)


@dataclass(slots=True)
class Run:
    """A run of a job; `began` is by the monotonic clock."""

    order: JobOrder
    id: str
    began: float
    status: JobStatus
    #: What it goes on from where it is started again.
    begin: str = ""
    #: Whether all of its tasks ever ran.
    ran: bool = False
    #: Since when the cluster does not show it; 0 while it does.
    absent: float = 0.0
    #: Whether it is on its way to be stopped by us.
    stopping: bool = False

    @property
    def job(self) -> str:
        """The job's name."""
        return self.order.job.name

    @property
    def lives(self) -> bool:
        """Whether it runs or is about to, as far as is known."""
        return self.status.state in _LIVING


@dataclass(slots=True)
class Runs:
    """By job; any thread may call. What is over stays over until the job is started again."""

    url: Callable[[], str]
    absent_seconds: float = ABSENT_SECONDS
    _runs: dict[str, Run] = field(default_factory=dict)
    #: By job: how often it failed soon after its start, in a row.
    _quick: dict[str, int] = field(default_factory=dict)
    #: Since when the cluster does not answer; 0 while it does.
    _away: float = 0.0
    _changed: Condition = field(default_factory=Condition)

    def add(self, run: Run) -> None:
        """Know of a run from now on, instead of the one before it."""
        with self._changed:
            self._runs[run.job] = run
            self._changed.notify_all()

    def get(self, job: str) -> Run | None:
        """Return what is known of a job."""
        with self._changed:
            return self._runs.get(job)

    def all(self) -> list[Run]:
        """Return what is known."""
        with self._changed:
            return list(self._runs.values())

    def forget(self, job: str) -> None:
        """Know nothing of a job any more."""
        with self._changed:
            self._runs.pop(job, None)
            self._quick.pop(job, None)

    def statuses(self) -> dict[str, JobStatus]:
        """Return the status of each job."""
        with self._changed:
            return {name: run.status for name, run in self._runs.items()}

    def settle(self, run: Run, status: JobStatus) -> None:
        """Note what became of a run, unless another has taken its place."""
        with self._changed:
            if self._runs.get(run.job) is run:
                run.status = status
                self._changed.notify_all()

    def wait(self, run: Run, until: float) -> JobStatus:
        """Return the status of a run when it has started or is over, or else at a time."""
        with self._changed:
            while run.status.state is JobState.STARTING and time.monotonic() < until:
                self._changed.wait(max(until - time.monotonic(), 0.0))
            return run.status

    def seen(self, jobs: Mapping[str, SeenJob], asked: float, causes: Mapping[str, str]) -> None:
        """Take note of what the cluster shows, which was asked at a time; `causes` by run."""
        with self._changed:
            self._away = 0.0
            for run in self._runs.values():
                if run.lives and run.began < asked and not run.stopping:
                    self._see(run, jobs.get(run.id), causes.get(run.id, ""))
            self._changed.notify_all()

    def _see(self, run: Run, shown: SeenJob | None, cause: str) -> None:
        if shown is None:
            run.absent = run.absent or time.monotonic()
            if time.monotonic() - run.absent >= self.absent_seconds:
                run.status = states.lost(run.job, run.status, run.begin)
            return
        run.absent = 0.0
        run.status = states.status_of(run.job, shown, run.status, cause, self.url())
        run.ran = run.ran or run.status.state is JobState.RUNNING
        if run.status.state is JobState.FAILED:
            run.status = self._failed(run)
        elif time.monotonic() - run.began > QUICK_SECONDS:
            self._quick.pop(run.job, None)

    def _failed(self, run: Run) -> JobStatus:
        """A job that always fails at once is given up, for no start of it will help."""
        if time.monotonic() - run.began > QUICK_SECONDS:
            self._quick.pop(run.job, None)
            return run.status
        times = self._quick[run.job] = self._quick.get(run.job, 0) + 1
        if times < QUICK_FAILURES:
            return run.status
        return replace(
            run.status,
            error=f"{run.status.error} ({times} times in a row within {QUICK_SECONDS:.0f} s)",
            hint=f"it is not started again: correct it, and run again; {run.status.hint}",
            transient=False,
        )

    def away(self, said: str) -> None:
        """Take note that the cluster does not answer: nothing new is known of its jobs."""
        with self._changed:
            self._away = self._away or time.monotonic()
            since = time.monotonic() - self._away
            for run in self._runs.values():
                if run.lives:
                    run.status = states.away(run.job, run.status, said, since)

    def gone(self, log: object) -> None:
        """Take note that the cluster ended, and with it all that it ran; `log` may tell why."""
        with self._changed:
            for run in self._runs.values():
                if run.lives:
                    run.status = states.cluster_ended(run.job, run.status, str(log))
            self._changed.notify_all()

    def counted(self, run: Run, records: tuple[int, int], at: float) -> None:
        """Take note of how many records a run has taken in and given out, at a time."""
        with self._changed:
            read, out = records
            last = run.status.progress
            rate = (read - last.fates.read) / (at - last.at) if last.at and at > last.at else 0.0
            streams = run.order.job.writes
            written = {streams[0]: out} if len(streams) == 1 else {}
            fates = Fates(read=read, used=read, written=written)
            progress = Progress(at=at, rows_per_second=max(rate, 0.0), fates=fates)
            run.status = replace(run.status, progress=progress)
