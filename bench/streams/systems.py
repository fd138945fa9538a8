"""What is compared: Millrace's driver and the driver written by hand, on one Kafka."""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka.admin import AdminClient

from bench.streams.child import Talker
from bench.streams.kinds import KINDS
from bench.streams.topics import PARTITIONS, QUIET, create
from millrace.agent.spark import DRIVER
from millrace.brokers.kafka import ManagedKafka
from millrace.engines.spark.classes import spark_archive
from millrace.engines.spark.engine import SparkEngine
from millrace.engines.spark.session import LOCAL_SLOTS, LOOPBACK, DriverSettings, _defaults
from millrace.machine import Folders, Java, fetch_jars, find_java
from millrace.ports import JobOrder, JobState
from millrace.spec import load_text

HERE = Path(__file__).parent
DEAD = "dead"
READY_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Work:
    """A job from Kafka to Kafka: `kind` is of KINDS, pass or bare; `mode` real-time or drain."""

    name: str
    kind: str
    mode: str
    source: str
    sink: str
    every: int = 60
    partitions: int = PARTITIONS


class System(Protocol):
    """Something that does a `Work`."""

    name: str

    @property
    def pid(self) -> int:
        """The process of its driver."""
        ...

    def prepare(self, work: Work) -> None:
        """Do what is done before the clock starts."""
        ...

    def start(self, work: Work) -> None:
        """Start it; returns when it runs."""
        ...

    def check(self, work: Work) -> None:
        """Raise if it failed."""
        ...

    def stop(self, work: Work) -> None:
        """Stop it, or see that it ended by itself."""
        ...

    def checkpoint(self, work: Work) -> Path:
        """Return where Spark notes its batches."""
        ...


class Millrace:
    """Jobs in Millrace's own driver, told over its socket."""

    name = "millrace"

    def __init__(
        self, engine: SparkEngine, clients: Mapping[str, Mapping[str, str]], place: Path
    ) -> None:
        self.engine = engine
        self._clients = clients
        self._place = place
        self._orders: dict[str, JobOrder] = {}

    @property
    def pid(self) -> int:
        """The process of its driver."""
        return self.engine.pid or 0

    def prepare(self, work: Work) -> None:
        """Read the pipeline's file."""
        pipeline = load_text(pipeline_text(work), "bench.yaml").required()
        job = pipeline.jobs[work.name]
        place = self._place / work.name
        java, writer = (self._clients[name] for name in ("java", "librdkafka"))
        self._orders[work.name] = JobOrder(
            pipeline, job, {"here": java}, place, HERE, writers={"here": writer}
        )

    def start(self, work: Work) -> None:
        """Start it; see `System`."""
        self.engine.start(self._orders[work.name])

    def check(self, work: Work) -> None:
        """Raise if it failed."""
        status = self.engine.status()[work.name]
        if status.state is JobState.FAILED:
            raise RuntimeError(status.error)

    def stop(self, work: Work) -> None:
        """Stop it; see `System`."""
        self.engine.stop(work.name)

    def checkpoint(self, work: Work) -> Path:
        """Return where Spark notes its batches."""
        return self._place / work.name / "checkpoint"


class ByHand:
    """Queries in the driver of `by_hand.py`."""

    name = "by hand"

    def __init__(self, driver: Talker, boot: str, place: Path) -> None:
        self.driver = driver
        self._boot = boot
        self._place = place

    @property
    def pid(self) -> int:
        """The process of its driver."""
        return self.driver.process.pid

    def ask(self, message: dict[str, Any], limit: float = 120.0) -> dict[str, Any]:
        """Give an order and return the answer; raises for an error."""
        self.driver.say(json.dumps(message))
        answer: dict[str, Any] = json.loads(self.driver.hear(limit)[1])
        if answer.get("error"):
            raise RuntimeError(answer["error"])
        return answer

    def prepare(self, work: Work) -> None:
        """Nothing to do."""

    def start(self, work: Work) -> None:
        """Start it; see `System`."""
        self.ask(self._order(work))

    def start_all(self, works: Sequence[Work], hands: int) -> None:
        """Start several, so many at a time."""
        orders = [self._order(work) for work in works]
        self.ask({"do": "start all", "orders": orders, "hands": hands})

    def _order(self, work: Work) -> dict[str, Any]:
        return {
            "do": "start",
            "name": work.name,
            "kind": KINDS[work.kind].by_hand if work.kind in KINDS else work.kind,
            "own_session": work.kind == "pass",
            "mode": work.mode,
            "source": work.source,
            "sink": work.sink,
            "dead": DEAD,
            "every": work.every,
            "partitions": work.partitions,
            "boot": self._boot,
            "checkpoint": str(self.checkpoint(work)),
        }

    def check(self, work: Work) -> None:
        """Raise if it failed."""
        if failed := self.ask({"do": "state", "name": work.name})["failed"]:
            raise RuntimeError(failed)

    def stop(self, work: Work) -> None:
        """Stop it; see `System`."""
        self.ask({"do": "stop", "name": work.name})

    def checkpoint(self, work: Work) -> Path:
        """Return where Spark notes its batches."""
        return self._place / work.name


@dataclass(slots=True)
class Rig:
    """One Kafka and the systems that use it."""

    boot: str
    place: Path
    admin: AdminClient
    systems: list[System] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def name(self, beginning: str) -> str:
        """Return a name that was not used yet."""
        return f"{beginning.replace(' ', '-')}-{next(self._numbers)}"

    def turn(self, number: int) -> list[System]:
        """Return the systems in the order of a round: who goes first changes with each.

        Whatever both use, the broker above all, grows warmer with every run.
        """
        return self.systems[:: -1 if number % 2 else 1]

    def make(self, *topics: str, partitions: int = PARTITIONS) -> None:
        """Make topics."""
        create(self.boot, topics, partitions)

    def drop(self, *topics: str) -> None:
        """Remove topics with their records."""
        for future in self.admin.delete_topics(list(topics)).values():
            future.result(30)


def pipeline_text(work: Work) -> str:
    """Return the file that describes a work."""
    kind = KINDS[work.kind]
    code = "\n    ".join(kind.lines)
    letters = f", dead_letters: {DEAD}" if kind.letters else ""
    dead = f"  {DEAD}: {{format: raw}}\n" if kind.letters else ""
    return f"""
pipeline: bench
sites: {{here: {{broker: kafka}}}}
defaults: {{streams: {{partitions: {PARTITIONS}}}}}
streams:
  {work.source}: {{schema: {kind.schema}{letters}}}
{dead}  {work.sink}: {kind.sink}
jobs:
  {work.name}:
    from: {{stream: {work.source}, as: raw}}
    to: {work.sink}
    mode: {work.mode}
    checkpoint: {work.every} s
    {code}
"""


@contextmanager
def rig(*, by_hand: bool = True) -> Iterator[Rig]:
    """Start Kafka and the drivers for the time of a block; all of it is gone after."""
    cache = Folders.of().cache
    java = find_java(cache)
    jars = fetch_jars(["kafka", "spark-kafka"], java, cache)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ExitStack() as stack:
        place = Path(folder)
        kafka = ManagedKafka(place / "kafka", java, jars[0])
        engine = SparkEngine(
            place / "driver",
            java,
            [jars[1]],
            java_options=spark_archive(java, cache).options,
            program=DRIVER,
        )
        stack.callback(kafka.stop)
        stack.callback(engine.kill, 5.0)
        engine.launch()
        hand = stack.enter_context(hand_driver(place, java, jars[1])) if by_hand else None
        kafka.start()
        clients = kafka.status().clients
        boot = clients["java"]["bootstrap.servers"]
        found = Rig(boot, place, AdminClient({"bootstrap.servers": boot, **QUIET}))
        found.make(DEAD)
        engine.wait()
        found.systems.append(Millrace(engine, clients, place / "jobs"))
        if hand is not None:
            hand.hear(READY_SECONDS)
            found.systems.append(ByHand(hand, boot, place / "hand-jobs"))
        yield found


@contextmanager
def hand_driver(place: Path, java: Java, jars: Path) -> Iterator[Talker]:
    """Start the driver written by hand, with the settings of Millrace's."""
    own = place / "hand"
    own.mkdir()
    settings = _defaults(DriverSettings(own, (jars,)))
    command = [sys.executable, str(HERE / "by_hand.py"), "--master", f"local[{LOCAL_SLOTS}]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    environment = {"JAVA_HOME": str(java.home), "SPARK_LOCAL_IP": LOOPBACK}
    talker = Talker(command, place / "hand.log", environment=environment)
    try:
        yield talker
    finally:
        talker.end(3.0)
