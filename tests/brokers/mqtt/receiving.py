"""Receivers for tests: as a thread, or as the program that jobs have."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from millrace.brokers.mqtt.counters import Counts, read_counts
from millrace.brokers.mqtt.receiver import Receiver, ReceiverConfig, command
from millrace.errors import OperationFailed
from millrace.machine import Child, leashed
from millrace.ports import Record
from millrace.spool import SpoolReader
from tests.brokers.mqtt.waiting import LIMIT, eventually


def records(spool: Path) -> list[Record]:
    """Return all that is in a spool."""
    return list(SpoolReader(spool).read(0))


def numbers(spool: Path) -> list[int]:
    """Return the numbers with which the values in a spool begin."""
    return [int((record.value or b"").split(b" ")[0]) for record in records(spool)]


def holds(spool: Path, count: int) -> bool:
    return eventually(lambda: SpoolReader(spool).span().end >= count)


def config_of(
    settings: Mapping[str, str], topic: str, spool: Path, client_id: str = "receiver"
) -> ReceiverConfig:
    return ReceiverConfig(dict(settings), client_id, topic, str(spool))


@dataclass
class Running:
    """A receiver in a thread, and how it ended."""

    receiver: Receiver
    thread: threading.Thread
    failure: OperationFailed | None = None

    def end(self) -> None:
        self.receiver.stop()
        self.thread.join(LIMIT)
        assert not self.thread.is_alive()


@contextmanager
def receiving(config: ReceiverConfig) -> Iterator[Running]:
    """Run a receiver in a thread; it has subscribed, and ends with the block."""
    ready = threading.Event()

    def run() -> None:
        try:
            running.receiver.run(ready.set)
        except OperationFailed as failure:
            running.failure = failure
            ready.set()

    running = Running(Receiver(config), threading.Thread(target=run))
    running.thread.start()
    try:
        assert ready.wait(LIMIT)
        yield running
    finally:
        running.end()


@dataclass
class Program:
    """A receiver as a process of its own."""

    child: Child
    config: ReceiverConfig
    log: Path

    @property
    def counts(self) -> Counts:
        return read_counts(self.config.counters)

    @property
    def text(self) -> str:
        return self.log.read_text("utf-8")

    def ended(self) -> int:
        """Return with which code it ended, by itself."""
        return self.child.process.wait(LIMIT)


@contextmanager
def program(
    config: ReceiverConfig, *, failpoint: str | None = None, connected: bool = True
) -> Iterator[Program]:
    """Run a receiver's program; it is connected, and gone after the block."""
    file = Path(f"{config.spool}.receiver.json")
    config.write(file)
    log = Path(f"{config.spool}.log")
    told = {} if failpoint is None else {"MILLRACE_FAILPOINT": failpoint}
    config.counters.unlink(missing_ok=True)
    child = Child.start(leashed(command(file)), log, environment={**os.environ, **told})
    running = Program(child, config, log)
    try:
        if connected:
            assert eventually(lambda: running.counts.connected_since is not None), running.text
        yield running
    finally:
        child.end(5.0)
