"""Looks at a running pipeline: lag, rates and latency of each job, as far as they are known."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from millrace.errors import OperationFailed
from millrace.measure.hops import hop_times
from millrace.measure.metrics import JobSample, Metrics
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.stream import UNKEPT
from millrace.ports import JobStatus, Log, Record, Span, origin_of
from millrace.spec.balance import solve

SECONDS = 2.0
#: Streams looked into in one round, and records of each partition.
_STREAMS, _RECORDS = 8, 100
#: Latencies kept of each job, the newest.
_SAMPLES = 500


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as a person or a program sees it; None is unknown."""

    job: str
    site: str
    status: JobStatus
    lag_records: Mapping[str, int] = field(default_factory=dict)
    lag_seconds: Mapping[str, float] = field(default_factory=dict)
    p50: float | None = None
    p99: float | None = None
    #: Seconds since the ledger was closed last.
    age: float | None = None


class Watched(Protocol):
    """A pipeline that runs, for who looks at it."""

    pipeline: Pipeline
    #: The pipeline with each query as one job.
    queries: Pipeline

    @property
    def say(self) -> Callable[[str], None]:
        """Who hears what a person should know."""
        ...

    def statuses(self) -> Mapping[str, JobStatus]:
        """Return what is known of each job, in the file's order."""
        ...

    def log(self, stream: str) -> Log:
        """Return the log that holds a stream."""
        ...


class Watch:
    """Looks again and again in a thread of its own; `views` never waits."""

    def __init__(self, runner: Watched, metrics: Metrics | None = None) -> None:
        self._runner = runner
        self._metrics = metrics
        #: The most records that each stream held before its readers, as far as was seen.
        self.peaks: dict[str, int] = {}
        #: How many the declared rates say are enough.
        self.promised = solve(runner.pipeline).buffers
        self._stop = threading.Event()
        self._ends: dict[str, Mapping[int, Span]] = {}
        self._oldest: dict[tuple[str, str], float] = {}
        #: By job, stream and partition: the position after the last one that was seen in a result.
        self._reached: dict[str, dict[tuple[str, int], int]] = {}
        self._latencies: dict[str, deque[float]] = {}
        streams = runner.pipeline.streams
        written = {
            name
            for job in runner.queries.jobs.values()
            for name in job.writes
            if streams[name].transport not in UNKEPT
        }
        self._turns = itertools.cycle(sorted(written)) if written else None
        self._count = min(_STREAMS, len(written))
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join(10)

    def views(self) -> list[JobView]:
        """Return all jobs as they were seen last."""
        now = time.time()
        return [
            self._view(self._runner.pipeline.jobs[name], status, now)
            for name, status in self._runner.statuses().items()
        ]

    def _view(self, job: Job, status: JobStatus, now: float) -> JobView:
        lag = self._lag(job, status)
        old = {
            name: now - self._oldest[job.name, name] if count else 0.0
            for name, count in lag.items()
            if not count or (job.name, name) in self._oldest
        }
        times = sorted(self._latencies.get(job.name, ()))
        return JobView(
            job.name,
            job.site or "",
            status,
            lag,
            {name: max(age, 0.0) for name, age in old.items()},
            times[len(times) // 2] if times else None,
            times[int(len(times) * 0.99)] if times else None,
            max(now - status.progress.at, 0.0) if status.progress.at else None,
        )

    def _lag(self, job: Job, status: JobStatus) -> dict[str, int]:
        """How many records are behind the job's position, by stream."""
        found = {}
        for name in job.follows:
            ends = self._ends.get(name)
            if ends is not None:
                at = self._positions(job, name, status, ends)
                found[name] = sum(max(span.end - at[part], 0) for part, span in ends.items())
        return found

    def _positions(
        self, job: Job, stream: str, status: JobStatus, ends: Mapping[int, Span]
    ) -> dict[int, int]:
        """Up to where a job has read: its last commit, or what its results tell since."""
        committed = status.progress.positions.get(stream, {})
        reached = self._reached.get(job.name, {})
        return {
            part: max(committed.get(part, span.first), reached.get((stream, part), 0))
            for part, span in ends.items()
        }

    def _look(self) -> None:
        while not self._stop.wait(SECONDS):
            for look in (self._look_at_results, self._look_at_ends, self._look_at_oldest):
                try:
                    look()
                except OperationFailed:
                    continue  # the broker is away: what was seen last stays
            self._show()

    def _show(self) -> None:
        """Pass what was seen on to the metrics, and keep the highest lags."""
        views = self.views()
        for view in views:
            for stream, count in view.lag_records.items():
                self._filled(stream, count)
        if self._metrics is not None:
            pipeline = self._runner.pipeline.name
            self._metrics.show(_sample(pipeline, view) for view in views)

    def _filled(self, stream: str, count: int) -> None:
        """Keep how full a stream was; more than the file's rates promise is told once."""
        before, most = self.peaks.get(stream, 0), self.promised.get(stream)
        self.peaks[stream] = max(count, before)
        if most is not None and before <= most < count:
            self._runner.say(
                f"stream {stream} holds {count} records before its reader, and the file's rates "
                f"promise at most {most}: more comes in than declared, or its reader is slower"
            )

    def _log(self, stream: str) -> Log:
        return self._runner.log(stream)

    def _look_at_ends(self) -> None:
        streams = self._runner.pipeline.streams
        for name in {name for job in self._runner.queries.jobs.values() for name in job.follows}:
            if streams[name].transport in UNKEPT:
                continue
            self._ends[name] = self._log(name).ends(streams[name].address)

    def _look_at_oldest(self) -> None:
        """Find when the oldest record was written that a job has not read."""
        for name, status in self._runner.statuses().items():
            job = self._runner.pipeline.jobs[name]
            for stream, count in self._lag(job, status).items():
                if count and (oldest := self._time_at(job, stream, status)) is not None:
                    self._oldest[name, stream] = oldest
                elif not count:
                    self._oldest.pop((name, stream), None)

    def _time_at(self, job: Job, stream: str, status: JobStatus) -> float | None:
        ends = self._ends[stream]
        at = self._positions(job, stream, status, ends)
        behind = {part: at[part] for part, span in ends.items() if at[part] < span.end}
        until = {part: position + 1 for part, position in behind.items()}
        address = self._runner.pipeline.streams[stream].address
        times = [
            record.time for record in self._log(stream).read(address, behind, until) if record.time
        ]
        return min(times) / 1000 if times else None

    def _look_at_results(self) -> None:
        """Read the newest results of some streams: how far jobs are, and how long records took."""
        for name in itertools.islice(self._turns or (), self._count):
            address, log = self._runner.pipeline.streams[name].address, self._log(name)
            ends = log.ends(address)
            start = {part: max(span.first, span.end - _RECORDS) for part, span in ends.items()}
            for record in log.read(address, start, {p: span.end for p, span in ends.items()}):
                self._seen(record)

    def _seen(self, record: Record) -> None:
        origin = origin_of(record)
        if origin is None:
            return
        job = origin.job.partition("/")[2]
        reached = self._reached.setdefault(job, {})
        key = (origin.stream, origin.partition)
        position = origin.position + 1
        new = position > reached.get(key, 0)
        reached[key] = max(position, reached.get(key, 0))
        times = hop_times(record)
        if new and len(times) >= 2:
            kept = self._latencies.setdefault(job, deque(maxlen=_SAMPLES))
            kept.append(max(times[-1] - times[-2], 0) / 1000)  # a clock may have been set back


def _sample(pipeline: str, view: JobView) -> JobSample:
    quantiles = {0.5: view.p50, 0.99: view.p99}
    latency = {quantile: took for quantile, took in quantiles.items() if took is not None}
    return JobSample(pipeline, view.job, view.status, view.lag_records, view.lag_seconds, latency)
