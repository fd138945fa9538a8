"""A real coordinator, `millrace up`, with real sites on this machine."""

from __future__ import annotations

import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.sites.files import NAME, Chain
from bench.sites.served import done
from bench.streams.child import Talker
from bench.streams.topics import QUIET
from millrace.client import Client
from millrace.machine import end_session

UP_SECONDS = 120.0
END_SECONDS = 120.0
THROUGH_SECONDS = 300.0
_PROGRAM = Path(sys.executable).with_name("millrace")


@dataclass(frozen=True, slots=True)
class Up:
    """A coordinator and its client."""

    talker: Talker
    client: Client

    def apply(self, document: dict[str, object]) -> dict[str, object]:
        """Apply a document and return the operation when it is done."""
        # A job that goes takes its place in its input along: that counts as state.
        return done(self.client, self.client.apply(document, allow_state_loss=True))

    def broker(self, site: str) -> str:
        """Return where the broker of a site is reached."""
        return str(self.client.site(site)["brokers"][NAME])

    def through(self, chain: Chain, before: int = 0) -> float:
        """Send a record into a chain and return when it left, by the clock of `monotonic`.

        `before` it so many others were sent.
        """
        (source, first), (sink, last) = chain.head, chain.tail
        producer = Producer({"bootstrap.servers": self.broker(first), "linger.ms": 0, **QUIET})
        settings = {"bootstrap.servers": self.broker(last), "group.id": "probe", **QUIET}
        with closing(Consumer({**settings, "fetch.wait.max.ms": 10})) as consumer:
            consumer.assign([TopicPartition(sink, 0, before)])
            sent = uuid.uuid4().hex.encode() * 3
            producer.produce(source, sent)
            producer.flush(30)
            until = time.monotonic() + THROUGH_SECONDS
            while time.monotonic() < until:
                message = consumer.poll(0.2)
                if message is not None and not message.error():
                    if message.value() != sent:
                        problem = f"{chain.name}: another record came at {before}"
                        raise ValueError(problem)
                    return time.monotonic()
        problem = f"no record came through {chain.name} in {THROUGH_SECONDS:.0f} s"
        raise TimeoutError(problem)

    def memory_mb(self) -> float:
        """Return the memory of all its processes."""
        total = 0.0
        process = psutil.Process(self.talker.process.pid)
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                total += one.memory_info().rss / 1e6
        return total


@contextmanager
def up() -> Iterator[Up]:
    """Run a coordinator for the time of a block, in a home of its own; all of it is gone after."""
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        home = Path(folder) / "home"
        command = [str(_PROGRAM), "up", "--home", str(home), "--listen", "127.0.0.1:0"]
        talker = Talker(command, Path(folder) / "up.log", listen_to_errors=True)
        try:
            _wait_up(talker)
            with closing(Client.local(home)) as client:
                yield Up(talker, client)
        finally:
            _end(talker)


def _wait_up(talker: Talker) -> None:
    until = time.monotonic() + UP_SECONDS
    while "coordinator is up" not in talker.hear(max(until - time.monotonic(), 0.1))[1]:
        pass


def _end(talker: Talker) -> None:
    """End the coordinator, and all that it started by ids: these have sessions of their own."""
    sessions: set[int] = set()
    with suppress(psutil.Error):
        children = psutil.Process(talker.process.pid).children(recursive=True)
        sessions = {child.pid for child in children}
    talker.end(END_SECONDS)
    for session in sessions:
        end_session(session)
