"""A run of a job: a thread that reads, works and writes, and notes how far it is."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from millrace.errors import OperationFailed
from millrace.model import Mode, Start, Stream
from millrace.ports import JobOrder, JobState, JobStatus, Log, Progress

from millrace_shelf import kept
from millrace_shelf.batch import Batch, Maker

Positions = dict[str, dict[int, int]]
#: Records of a partition that are one batch at most.
_MOST: Final = 500
_LOOK_SECONDS: Final = 0.02
_KILL_SECONDS: Final = 1.0


@dataclass(slots=True)
class Run:
    """One run of a job; its public methods are called by others, the rest is its thread's."""

    order: JobOrder
    maker: Maker
    #: By the name of a stream, the log that holds it.
    logs: Mapping[str, Log]
    say: Callable[[str], None]
    status: JobStatus = field(default_factory=lambda: JobStatus(JobState.STARTING))
    _ends: Mapping[str, Mapping[int, int]] | None = None
    #: Held while something is written, so that nothing is after a kill.
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _killed: bool = False
    _thread: threading.Thread = field(init=False)

    def begin(self) -> None:
        """Take the job's folder and run; raises where that, or its streams, can't be had."""
        lock = kept.taken(self.order.place, self.order.job.name)
        try:
            progress = kept.read_progress(self.order.place) or self._first()
            run = uuid.uuid4().hex
            self.status = JobStatus(JobState.RUNNING, Mode.MICRO_BATCH, (), progress, run=run)
            kept.write_progress(self.order.place, progress)
        except BaseException:
            lock.close()
            raise

        def work() -> None:
            with lock:
                self._work()

        self._thread = threading.Thread(target=work, name=self.order.job.name, daemon=True)
        self._thread.start()

    def _first(self) -> Progress:
        """Where a job begins that has not run: where it was told, else as its file says."""
        told, positions = kept.read_start(self.order.place), {}
        for port in self.order.job.inputs:
            stream = self._stream(port.stream)
            spans = self.logs[stream.name].ends(stream.address)
            late = port.start is Start.LATEST
            begins = {n: span.end if late else span.first for n, span in spans.items()}
            positions[stream.name] = {**begins, **told.get(stream.address, {})}
        return Progress(positions=positions)

    @property
    def lives(self) -> bool:
        """Whether it runs, or is about to."""
        return self.status.state in (JobState.STARTING, JobState.RUNNING)

    def stop(self, ends: Mapping[str, Mapping[int, int]] | None, limit: float) -> None:
        """Stop behind a batch, with `ends` behind the one that reaches them; raises if it can't."""
        self._ends = ends
        self._stopping.set()
        self.wait(limit)
        name, status = self.order.job.name, self.status
        if self._thread.is_alive():
            raise OperationFailed(
                "too-slow", f"job {name} did not stop in {limit:.0f} s", transient=True
            )
        if ends is not None and status.state is JobState.FAILED:
            raise OperationFailed("not-drained", status.error, status.hint)
        self.status = replace(status, state=JobState.STOPPED)

    def wait(self, limit: float) -> None:
        """Wait for its end, but not for longer."""
        self._thread.join(max(limit, 0.0))

    def kill(self) -> None:
        """End it; code of the user's that hangs can't be ended, but it writes nothing any more."""
        with self._writing:
            self._killed = True
            self._stopping.set()
            if self.lives:
                self.status = replace(
                    self.status, state=JobState.FAILED, error="it was ended at once"
                )
        self.wait(_KILL_SECONDS)  # then its folder is free

    def _work(self) -> None:
        """Work off batches until somebody wants no more; whatever goes wrong is told."""
        try:
            while not self._killed and not self._done():
                if not self._batch():
                    self._stopping.wait(_LOOK_SECONDS)
        except OperationFailed as failure:
            self._fail(failure.message, failure.hint, transient=failure.transient)
        except Exception as error:
            message = f"job {self.order.job.name}: {type(error).__name__}: {error}"
            self._fail(message, "is this a mistake of the engine? see its log", transient=False)

    def _fail(self, error: str, hint: str, *, transient: bool) -> None:
        self.say(error)
        self.status = replace(
            self.status, state=JobState.FAILED, error=error, hint=hint, transient=transient
        )

    def _done(self) -> bool:
        """Whether a stop was ordered, and what was to be read before it is."""
        at = self.status.progress.positions
        return self._stopping.is_set() and all(
            at[stream].get(number, 0) >= end
            for stream, parts in (self._ends or {}).items()
            for number, end in parts.items()
        )

    def _batch(self) -> bool:
        """Work off what is there, within bounds; returns whether there was anything."""
        begun, batch, before = time.monotonic(), Batch(), self.status.progress
        positions = {name: dict(parts) for name, parts in before.positions.items()}
        for name in self.order.job.reads:
            stream, log = self._stream(name), self.logs[name]
            at = positions.setdefault(name, {})
            for number, span in log.ends(stream.address).items():
                at[number] = max(at.get(number, 0), span.first)
                until = min(span.end, at[number] + _MOST)
                for record in log.read(stream.address, {number: at[number]}, {number: until}):
                    self.maker.add(batch, stream, record)
                    at[number] = record.position + 1
        if positions == before.positions:
            return False
        took = time.monotonic() - begun
        fates = batch.added(before.fates)
        rate = (fates.read - before.fates.read) / took if took else 0.0
        self._commit(batch, Progress(before.batch + 1, time.time(), positions, rate, took, fates))
        return True

    def _commit(self, batch: Batch, progress: Progress) -> None:
        """Write results, then how far it is: what is cut short between is written again."""
        with self._writing:
            if self._killed:
                return
            for name, records in batch.results.items():
                self.logs[name].write(self._stream(name).address, records)
            kept.write_progress(self.order.place, progress)
            self.status = replace(self.status, progress=progress)

    def _stream(self, name: str) -> Stream:
        return self.order.pipeline.streams[name]
