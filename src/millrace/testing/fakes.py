"""A broker and an engine without processes: for whole coordinators in one test."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from millrace.errors import OperationFailed
from millrace.model.job import Mode
from millrace.model.status import JobFacts
from millrace.model.stream import Stream
from millrace.ports import (
    BrokerStatus,
    JobOrder,
    JobState,
    JobStatus,
    Log,
    Progress,
    StreamStatus,
)
from millrace.testing.faulty_log import MemoryLog


class FakeBroker:
    """See the port `Broker`. Its streams are in memory."""

    def __init__(self, name: str = "fake") -> None:
        self._memory = MemoryLog({})
        self.log: Log = self._memory
        self._name = name
        self._up = False
        self._streams: dict[str, Stream] = {}

    def start(self) -> None:
        """Serve."""
        self._up = True

    def stop(self) -> None:
        """Serve no more; what it holds stays."""
        self._up = False

    def status(self, *, whole: bool = True) -> BrokerStatus:
        """Return what is there."""
        del whole
        streams = {
            name: StreamStatus(stream.partitions, compact=stream.compact)
            for name, stream in self._streams.items()
        }
        return BrokerStatus(self._up, self._name, None, {}, streams)

    def ensure(self, *streams: Stream, readers: Sequence[str] = ()) -> None:
        """Make streams be there; raises for fewer partitions, with nothing changed."""
        del readers
        for stream in streams:
            there = self._streams.get(stream.address)
            if there is not None and there.partitions > stream.partitions:
                raise OperationFailed(
                    "fewer-partitions",
                    f"{stream.address} has {there.partitions} partitions, and can't have fewer",
                    f"write streams.{stream.name}.partitions: {there.partitions}",
                )
        for stream in streams:
            self._memory.grow(stream.address, stream.partitions)
            self._streams[stream.address] = stream

    def drop(self, stream: Stream) -> None:
        """Remove a stream."""
        self._streams.pop(stream.address, None)
        self._memory.forget(stream.address)


@dataclass(slots=True)
class FakeEngine:
    """See the port `Engine`. Its jobs do nothing but run."""

    #: Jobs that can't start, and those that are refused when they are looked at.
    broken: dict[str, OperationFailed] = field(default_factory=dict)
    refused: dict[str, OperationFailed] = field(default_factory=dict)
    jobs: dict[str, JobStatus] = field(default_factory=dict)
    orders: dict[str, JobOrder] = field(default_factory=dict)
    starts: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def examine(self, orders: Sequence[JobOrder]) -> Mapping[str, JobFacts]:
        """Say of each job that it would run in batches; state is what its file says."""
        for order in orders:
            if order.job.name in self.refused:
                raise self.refused[order.job.name]
        return {
            job.name: JobFacts(Mode.MICRO_BATCH, stateful=job.window is not None)
            for order in orders
            for job in order.jobs
        }

    def start(self, order: JobOrder) -> None:
        """Run a job; one that runs is left alone."""
        with self._lock:
            name = order.job.name
            if name in self.broken:
                raise self.broken[name]
            before = self.jobs.get(name)
            if before is not None and before.state is JobState.RUNNING:
                return
            self.starts += 1
            self.orders[name] = order
            batch = before.progress.batch + 1 if before is not None else 0
            progress = Progress(batch, positions={s: {0: batch} for s in order.job.follows})
            run = f"fake-{self.starts}"
            self.jobs[name] = JobStatus(
                JobState.RUNNING, Mode.MICRO_BATCH, progress=progress, run=run
            )

    def stop(self, job: str, ends: Mapping[str, Mapping[int, int]] | None = None) -> None:
        """Stop a job; with `ends`, it has read that far."""
        with self._lock:
            status = self.jobs.get(job)
            if status is not None:
                positions = {**status.progress.positions, **(ends or {})}
                progress = replace(status.progress, positions=positions)
                self.jobs[job] = replace(status, state=JobState.STOPPED, progress=progress)

    def status(self) -> Mapping[str, JobStatus]:
        """Return all jobs that were started."""
        return dict(self.jobs)

    def close(self) -> None:
        """Stop every job."""
        for name in list(self.jobs):
            self.stop(name)

    def kill(self, grace: float = 0.0) -> None:
        """Let every job fail that runs."""
        del grace
        with self._lock:
            failed = {
                name: replace(status, state=JobState.FAILED)
                for name, status in self.jobs.items()
                if status.state is JobState.RUNNING
            }
            self.jobs.update(failed)
