"""Receivers of streams whose brokers keep nothing: one process for each input of a query."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Container
from dataclasses import dataclass, field

from millrace.engines.spark.outside.carried import (
    client_of,
    plugin_of,
    read_elsewhere,
    reception,
    settings_file,
)
from millrace.errors import OperationFailed
from millrace.machine import Child, leashed
from millrace.machine.secrets import write_private
from millrace.model.stream import Stream
from millrace.ports import JobOrder

#: How long a receiver may take to put away what it has.
END_SECONDS = 5.0
#: How long it may take to receive what its broker has.
DRAIN_SECONDS = 20.0
_PAUSE = 0.02
#: With what a receiver ends that need not be started again: it was refused, or its name is taken.
FINAL = (2, 3)
#: How often receivers are looked at, and the longest wait before one is started again.
LOOK_SECONDS, MOST_SECONDS = 0.5, 30.0


@dataclass(slots=True)
class _Receiver:
    """A receiver: its process, and when it is started again should it end."""

    order: JobOrder
    stream: Stream
    child: Child
    failures: int = 0
    begun: float = field(default_factory=time.monotonic)

    @property
    def wait(self) -> float:
        """How long to wait before it is started again."""
        return min(2.0**self.failures, MOST_SECONDS)


@dataclass(slots=True)
class Receivers:
    """By query. Any thread may call. `failed` hears of one that says that it never will do."""

    failed: Callable[[JobOrder, OperationFailed], None] = lambda _, __: None
    _running: dict[str, list[_Receiver]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _watch: threading.Thread | None = None

    def begin(self, order: JobOrder) -> None:
        """Receive what a query reads of brokers that keep nothing, from now on.

        Those who read logs of other brokers are told how.
        """
        self.end(order.job.name)
        found = []
        for stream in read_elsewhere(order):
            if plugin_of(order, stream).keeps:
                settings = json.dumps(client_of(order, stream))
                file = settings_file(order, stream)
                file.parent.mkdir(parents=True, exist_ok=True)
                write_private(file, settings)
            else:
                found.append(_Receiver(order, stream, _started(order, stream)))
        if found:
            with self._lock:
                self._running[order.job.name] = found
                if self._watch is None:
                    self._watch = threading.Thread(target=self._look, daemon=True)
                    self._watch.start()

    def end(self, query: str, *, drained: bool = False, left: Container[str] = ()) -> None:
        """Receive nothing more for a query; brokers keep what comes for its next receiver.

        With `drained` all that brokers have by now is received first, as far as they are there; of
        streams that are `left` nothing is kept then.
        """
        with self._lock:
            gone = self._running.pop(query, [])
        for receiver in gone:
            if drained and receiver.child.alive:
                leaves = receiver.stream.name in left
                os.kill(receiver.child.pid, signal.SIGUSR2 if leaves else signal.SIGUSR1)
        until = time.monotonic() + DRAIN_SECONDS
        for receiver in gone:
            while drained and receiver.child.alive and time.monotonic() < until:
                time.sleep(_PAUSE)
            receiver.child.end(END_SECONDS)

    def _look(self) -> None:
        """Start receivers again that ended, later and later where they fail at once."""
        while True:
            time.sleep(LOOK_SECONDS)
            with self._lock:
                every = [one for found in self._running.values() for one in found]
                given_up = [one for one in every if one.child.process.poll() in FINAL]
                for receiver in every:
                    if receiver not in given_up:
                        self._look_at(receiver)
            for receiver in given_up:
                self.end(receiver.order.job.name)
                self.failed(receiver.order, _failure(receiver))

    def _look_at(self, receiver: _Receiver) -> None:
        lasted = time.monotonic() - receiver.begun
        if receiver.child.alive:
            if lasted > MOST_SECONDS:
                receiver.failures = 0
        elif lasted > receiver.wait:
            receiver.failures += 1
            receiver.child = _started(receiver.order, receiver.stream)
            receiver.begun = time.monotonic()


def _failure(receiver: _Receiver) -> OperationFailed:
    """What a receiver said last, as the failure of its job."""
    log = reception(receiver.order, receiver.stream).folder / "receiver.log"
    said = log.read_text("utf-8", "replace").strip().rpartition("\n")[2] if log.exists() else ""
    return OperationFailed(
        "not-received",
        f"job {receiver.order.job.name}: {receiver.stream.name} can't be received: {said}",
        f"correct that and apply again; all that was said is in {log}",
    )


def _started(order: JobOrder, stream: Stream) -> Child:
    told = reception(order, stream)
    told.folder.mkdir(parents=True, exist_ok=True)
    command = plugin_of(order, stream).receiver(told)
    return Child.start(leashed(list(command)), told.folder / "receiver.log")
