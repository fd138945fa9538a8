"""A pipeline that runs through `millrace run`, and the processes it is made of."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from bench.streams.child import Talker
from bench.streams.topics import QUIET
from millrace.agent.brokers import site_place
from millrace.brokers.kafka import ManagedKafka
from millrace.machine import Folders, end_session

END_SECONDS = 40.0
_PROGRAM = Path(sys.executable).with_name("millrace")


@dataclass(slots=True)
class Pipeline:
    """A pipeline called `bench` at the site `here`; `began` is when its command was given."""

    talker: Talker
    home: Path
    began: float

    def said(self, words: str) -> float | None:
        """Return how long after the start it said something, if it did."""
        found = (at for at, line in self.talker.lines if words in line)
        return next((at - self.began for at in found), None)

    def heard(self) -> list[tuple[float, str]]:
        """Return all it said, with the seconds since the start."""
        return [(round(at - self.began, 3), line) for at, line in self.talker.lines]

    def check(self) -> None:
        """Raise if it ended."""
        if self.talker.process.poll() is not None:
            lines = "\n".join(line for _, line in self.talker.lines)
            message = f"millrace run ended:\n{lines}"
            raise RuntimeError(message)

    def broker(self, topics: Sequence[str], limit: float) -> str:
        """Wait until the broker has these topics and return its address."""
        place = site_place(Folders.of(self.home), "bench", "here") / "kafka"
        until = time.monotonic() + limit
        asked: tuple[str, AdminClient] | None = None  # one client: each costs threads
        while time.monotonic() < until:
            self.check()
            address = ManagedKafka.address_at(place)
            if address is not None and (asked is None or asked[0] != address):
                asked = address, AdminClient({"bootstrap.servers": address, **QUIET})
            if asked is not None and _has(asked[1], topics):
                return asked[0]
            time.sleep(0.1)
        message = f"no broker with {', '.join(topics)} in {limit:.0f} s"
        raise TimeoutError(message)

    def driver(self) -> dict[str, psutil.Process]:
        """Return the processes of the driver: Python's and Java's."""
        found = {}
        for process in psutil.Process(self.talker.process.pid).children(recursive=True):
            with suppress(psutil.Error):
                command = " ".join(process.cmdline())
                if "org.apache.spark.deploy.SparkSubmit" in command:
                    found["java"] = process
                elif "millrace.engines.spark.host" in command and "java" not in process.name():
                    found["python"] = process
        return found


class Probe:
    """Sends records into a topic and sees them leave another, one by one."""

    def __init__(self, address: str, source: str, sink: str) -> None:
        self._source = source
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 0, **QUIET})
        settings = {"bootstrap.servers": address, "group.id": "probe", "fetch.wait.max.ms": 10}
        self._consumer = Consumer({**settings, **QUIET})
        self._consumer.assign([TopicPartition(sink, 0, 0)])

    def through(self, value: bytes, limit: float) -> float:
        """Send a record and return when one was seen at the other end."""
        self._producer.produce(self._source, value)
        self._producer.flush(30)
        until = time.monotonic() + limit
        while time.monotonic() < until:
            message = self._consumer.poll(0.2)
            if message is not None and not message.error():
                return time.monotonic()
        problem = f"no record came through in {limit:.0f} s"
        raise TimeoutError(problem)

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()


def _has(admin: AdminClient, topics: Sequence[str]) -> bool:
    with suppress(KafkaException):
        return set(topics) <= set(admin.list_topics(timeout=1).topics)
    return False


@contextmanager
def running(text: str, folder: Path) -> Iterator[Pipeline]:
    """Run a file for the time of a block, in a home of its own; all of it is gone after."""
    folder.mkdir(parents=True, exist_ok=True)
    file, home = folder / "pipeline.yaml", folder / "home"
    file.write_text(text)
    command = [str(_PROGRAM), "run", str(file), "--home", str(home)]
    began = time.monotonic()
    talker = Talker(command, folder / "run.log", listen_to_errors=True)
    sessions: set[int] = set()
    try:
        yield Pipeline(talker, home, began)
    finally:
        with suppress(psutil.Error):
            children = psutil.Process(talker.process.pid).children(recursive=True)
            sessions = {child.pid for child in children}
        talker.end(END_SECONDS)
        for session in sessions:  # what it started has sessions of its own
            end_session(session)


def usage(processes: Sequence[psutil.Process], seconds: float) -> float:
    """Return how many cores the processes use, over some seconds."""
    before = _cpu(processes)
    time.sleep(seconds)
    return (_cpu(processes) - before) / seconds


def spent(pid: int) -> float:
    """Return the processor time of a process and of all that it started, in seconds."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return _cpu([process, *process.children(recursive=True)])
    return 0.0


def _cpu(processes: Sequence[psutil.Process]) -> float:
    """The processor time so far; that of children which ended counts too."""
    total = 0.0
    for process in processes:
        with suppress(psutil.Error):
            times = process.cpu_times()
            ended = times.children_user + times.children_system
            total += float(times.user + times.system + ended)
    return total
