"""Those that run a chain of jobs on one Kafka: Millrace, Flink asked by REST, Spark by hand."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

from confluent_kafka.admin import AdminClient

from bench.sites.up import Up, up
from bench.streams.systems import ByHand, Work, hand_driver
from bench.streams.topics import QUIET, create
from millrace.engines.flink import cluster as flink_cluster
from millrace.engines.flink.calls import Calls, address_of
from millrace.engines.flink.cluster import Cluster, libraries
from millrace.engines.flink.program import Program
from millrace.engines.flink.rest import FlinkRest
from millrace.errors import OperationFailed
from millrace.machine import Java, fetch_jars

JAVA = Path(__file__).parent / "java"
ENTRY = "bench.Pass"
UP_SECONDS, GONE_SECONDS = 120.0, 120.0
#: So many jobs are handed to Flink, and bare queries to Spark, at the same time.
HANDS = 4


def topics(name: str, jobs: int) -> list[str]:
    """Return the topics of a chain, in the direction of the data."""
    return [f"{name}_t{number}" for number in range(jobs + 1)]


class Side(Protocol):
    """Runs chains."""

    @property
    def pids(self) -> Sequence[int]:
        """The processes that it is made of, with what these started."""
        ...

    def deploy(self, name: str) -> None:
        """Start a chain with topics of its own, and return when all of it was started."""
        ...

    def remove(self, name: str) -> None:
        """End a chain, and return when nothing of it is left."""
        ...


@dataclass(frozen=True, slots=True)
class MillraceSide:
    """A coordinator with one site. A job beside the chain keeps the driver when that goes."""

    boot: str
    jobs: int
    transient: bool
    up: Up

    @property
    def pids(self) -> Sequence[int]:
        """See `Side`."""
        return [self.up.talker.process.pid]

    def deploy(self, name: str) -> None:
        """See `Side`."""
        self.up.apply(document(self.boot, name, self.jobs, transient=self.transient))

    def remove(self, name: str) -> None:
        """See `Side`."""
        del name
        self.up.apply(document(self.boot, "", 0, transient=False))


def document(boot: str, name: str, jobs: int, *, transient: bool) -> dict[str, Any]:
    """Return the native document of a chain, and of a job beside it."""
    streams: dict[str, Any] = {}
    made: dict[str, Any] = {}
    for chain, count in (("beside", 1), (name, jobs)):
        every = topics(chain, count) if count else []
        for number, topic in enumerate(every):
            inside = {"transient": True} if transient and 0 < number < count else {}
            streams[topic] = {"partitions": 1, "format": "raw", **inside}
        for number, (source, sink) in enumerate(pairwise(every)):
            made[f"{chain}_j{number}"] = {
                "from": source, "to": sink, "checkpoint": "60 s", "sql": f"SELECT * FROM {source}",
            }  # fmt: skip
    sites = {"here": {"broker": {"kind": "kafka", "address": boot}}}
    return {"pipeline": "bench", "sites": sites, "streams": streams, "jobs": made}


@contextmanager
def millrace_side(boot: str, jobs: int, *, transient: bool) -> Iterator[MillraceSide]:
    """Start a coordinator for the time of a block; its driver comes with the first chain."""
    with up() as coordinator:
        yield MillraceSide(boot, jobs, transient, coordinator)


@dataclass(frozen=True, slots=True)
class HandSide:
    """A driver of Spark and queries as one writes them by hand: nothing of Millrace is in it.

    They are started one after another; `bare` ones, which only pass records on, side by side.
    """

    boot: str
    jobs: int
    hand: ByHand
    bare: bool

    @property
    def pids(self) -> Sequence[int]:
        """See `Side`."""
        return [self.hand.pid]

    def _works(self, name: str) -> list[Work]:
        links = enumerate(pairwise(topics(name, self.jobs)))
        kind = "bare" if self.bare else "pass"
        return [
            Work(f"{name}_j{n}", kind, "real-time", source, sink, every=60, partitions=1)
            for n, (source, sink) in links
        ]

    def deploy(self, name: str) -> None:
        """See `Side`."""
        create(self.boot, topics(name, self.jobs), 1)
        if self.bare:
            self.hand.start_all(self._works(name), HANDS)
            return
        for work in self._works(name):
            self.hand.start(work)

    def remove(self, name: str) -> None:
        """See `Side`."""
        for work in self._works(name):
            self.hand.stop(work)


@contextmanager
def hand_side(
    boot: str, jobs: int, place: Path, java: Java, jars: Path, *, bare: bool
) -> Iterator[HandSide]:
    """Start a driver for the time of a block."""
    place.mkdir(parents=True)
    with hand_driver(place, java, jars) as driver:
        driver.hear(UP_SECONDS)
        yield HandSide(boot, jobs, ByHand(driver, boot, place / "jobs"), bare)


@dataclass(slots=True)
class FlinkSide:
    """A session cluster; a chain is a job for each link, or one job of as many operators."""

    boot: str
    jobs: int
    whole: bool
    cluster: Cluster
    rest: FlinkRest
    jar: Path
    sha256: str
    running: dict[str, list[str]] = field(default_factory=dict)

    @property
    def pids(self) -> Sequence[int]:
        """See `Side`."""
        return [child.pid for child in self.cluster.children.values()]

    def topics(self, name: str) -> list[str]:
        """Return the topics of a chain."""
        every = topics(name, self.jobs)
        return [every[0], every[-1]] if self.whole else every

    def prepare(self, name: str) -> None:
        """Make the topics of a chain."""
        create(self.boot, self.topics(name), 1)
        self.running[name] = []

    def deploy(self, name: str) -> None:
        """See `Side`."""
        if name not in self.running:
            self.prepare(name)
        every = self.topics(name)
        operators = self.jobs if self.whole else 0
        links = list(pairwise(every))
        self.rest.jar(self._program("", "", 0))
        with ThreadPoolExecutor(HANDS) as pool:
            started = pool.map(partial(self._run, operators), links)
            self.running[name] = list(started)

    def _program(self, source: str, sink: str, operators: int) -> Program:
        given = (self.boot, source, sink, str(operators))
        return Program(self.jar, self.sha256, ENTRY, given, 1, {})

    def _run(self, operators: int, link: tuple[str, str]) -> str:
        source, sink = link
        identity = uuid.uuid4().hex
        self.rest.run(self._program(source, sink, operators), identity, source, {})
        return identity

    def remove(self, name: str) -> None:
        """See `Side`."""
        left = self.running.pop(name)
        with ThreadPoolExecutor(HANDS) as pool:
            list(pool.map(self.rest.cancel, left))
        until = time.monotonic() + GONE_SECONDS
        while left and time.monotonic() < until:
            known = self.rest.jobs()
            left = [job for job in left if job in known and not known[job].over]
            time.sleep(0.1)
        admin = AdminClient({"bootstrap.servers": self.boot, **QUIET})
        for future in admin.delete_topics(self.topics(name)).values():
            future.result(60)


@dataclass(frozen=True, slots=True)
class Kit:
    """What a Flink needs that is made before any clock runs: its libraries, and the job's jar."""

    java: Java
    #: Flink's own jars and those of its connector to Kafka.
    jars: Path
    jar: Path


def made_kit(place: Path, java: Java, cache: Path) -> Kit:
    """Compile the job, and put the jars together that a cluster is started with."""
    (connector,) = fetch_jars(["flink-kafka"], java, cache, file=JAVA / "ivy.xml")
    classes, jars = place / "classes", place / "flink" / "lib"
    jars.mkdir(parents=True)
    for jar in (*libraries().glob("*.jar"), *connector.glob("*.jar")):
        (jars / jar.name).symlink_to(jar)
    command = ["javac", "-proc:none", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes)]
    sources = [str(path) for path in sorted(JAVA.glob("bench/*.java"))]
    subprocess.run([*command, *sources], check=True, timeout=120)
    made = Path(shutil.make_archive(str(place / "pass"), "zip", classes))
    return Kit(java, jars, made.rename(place / "pass.jar"))


@contextmanager
def flink_side(
    boot: str, jobs: int, place: Path, kit: Kit, first: str, *, whole: bool
) -> Iterator[FlinkSide]:
    """Start a cluster for the time of a block; the topics of the first chain are made meanwhile.

    The connector is among the cluster's own jars: in the job's, each job would load it anew.
    """
    options = {
        "taskmanager.numberOfTaskSlots": str(jobs + 4),
        "jobmanager.memory.heap.size": "1g",
        "taskmanager.memory.task.heap.size": "1500m",
        "taskmanager.memory.jvm-metaspace.size": "1g",
    }
    cluster = Cluster(place, kit.java, options)
    digest = hashlib.sha256(kit.jar.read_bytes()).hexdigest()
    with patch.object(flink_cluster, "libraries", lambda: kit.jars):
        try:
            cluster.launch()
            rest = FlinkRest(Calls(address_of(cluster.url)))
            side = FlinkSide(boot, jobs, whole, cluster, rest, kit.jar, digest)
            side.prepare(first)
            _wait_up(side)
            yield side
        finally:
            cluster.end()


def _wait_up(side: FlinkSide) -> None:
    until = time.monotonic() + UP_SECONDS
    while time.monotonic() < until:
        try:
            if side.rest.slots().total:
                return
        except OperationFailed:
            pass
        time.sleep(0.05)
    message = f"Flink is not up in {UP_SECONDS:.0f} s: see {side.cluster.log}"
    raise TimeoutError(message)
