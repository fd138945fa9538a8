"""Messages from MQTT through Spark to MQTT: how many a second, and how long each takes.

A bridge of paho's client does the same beside it, between the same publisher and subscriber; and
the same job in micro-batches on Kafka.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.crossing.cost import Spent, batches, cores_of
from bench.crossing.figures import CrossingPart, medians
from bench.crossing.setting import Setting
from bench.sites.up import Up, up
from bench.streams.child import talking
from bench.streams.results import Bar, ratio
from millrace.brokers.kafka import ManagedKafka
from millrace.brokers.mqtt import ManagedMqtt
from millrace.machine import Folders, fetch_jars, find_java
from millrace.measure.histogram import Histogram

LEAST = 0.8
LIMIT_SECONDS, LATE_SECONDS = 180.0, 30.0
#: Mosquitto writes its whole state after so many changes: with a few, it does little else as soon
#: as messages wait in it, whoever they wait for.
AUTOSAVE = "1000000"
PLAIN, BRIDGE, SQL, KAFKA = "plain bridge", "bridge: true", "sql", "sql on Kafka"
SYSTEMS = (PLAIN, BRIDGE, SQL, KAFKA)
_LOAD = [sys.executable, "-m", "bench.crossing.load"]
_PLAIN = [sys.executable, "-m", "bench.crossing.paho_bridge"]
#: `cpu_ms` is the processor time of a thousand messages.
_COLUMNS = ("rate", "middle_rate", "cpu_ms", "p50_ms", "p99_ms", "batch_ms")
_WORK: dict[str, dict[str, Any]] = {
    BRIDGE: {"bridge": True},
    SQL: {"sql": "SELECT n, pad FROM raw WHERE n >= 0"},
    KAFKA: {"sql": "SELECT n, pad FROM raw WHERE n >= 0", "mode": "micro-batch"},
}


@dataclass(slots=True)
class Rig:
    """A Mosquitto and a Kafka, and a coordinator whose site uses both."""

    place: Path
    mosquitto: Path
    boot: str
    up: Up
    setting: Setting
    _number: int = 0
    _first: int = 0
    _sites: dict[str, Any] = field(default_factory=dict)

    def document(self, system: str | None, name: str) -> dict[str, Any]:
        """Return a pipeline of one job, which has streams of its own; or of none."""
        streams, jobs = {}, {}
        if system is not None:
            ends = {f"{name}-{end}": self.topic(name, end) for end in ("in", "out")}
            kafka = system == KAFKA
            where: dict[str, Any] = (
                {"site": "cloud", "partitions": 1} if kafka else {"site": "edge"}
            )
            for stream, topic in ends.items():
                own = {} if kafka else {"topic": topic}
                streams[stream] = {**where, **own, "schema": {"n": "long", "pad": "string"}}
            source = {"stream": f"{name}-in", "as": "raw"}
            read = f"{name}-in" if system == BRIDGE else source
            jobs[name] = {"site": "edge", "from": read, "to": f"{name}-out", **_WORK[system]}
        return {"pipeline": "bench", "sites": self.sites(), "streams": streams, "jobs": jobs}

    def sites(self) -> dict[str, Any]:
        """Return both sites: the jobs are at the first."""
        settings = ManagedMqtt.settings_at(self.mosquitto) or {}
        password = {"secret": f"file:{self.mosquitto / 'password'}"}
        options = {"username": settings["username"], "password": password}
        mqtt = {"kind": "mqtt", "address": settings["address"], "options": options}
        return {
            "edge": {"broker": mqtt},
            "cloud": {"broker": {"kind": "kafka", "address": self.boot}},
        }

    def topic(self, name: str, end: str) -> str:
        """Return a topic of MQTT."""
        return f"bench/{name}/{end}"

    def numbers(self, count: int) -> int:
        """Return the first of so many numbers that no message has had."""
        self._first += count
        return self._first - count

    @contextmanager
    def running(self, system: str) -> Iterator[Ends]:
        """Have a system between two topics for the time of a block."""
        self._number += 1
        name = f"w{self._number}"
        source, sink = (self.topic(name, end) for end in ("in", "out"))
        mqtt = f"mqtt:{self.mosquitto}"
        if system == PLAIN:
            command = [*_PLAIN, str(self.mosquitto), source, sink, str(self.place / f"{name}.kept")]
            with talking(command, self.place / "bridge.log") as bridge:
                bridge.hear(LIMIT_SECONDS)
                yield Ends(mqtt, source, sink, name, [bridge.process.pid])
            return
        self.up.apply(self.document(system, name))
        if system == KAFKA:
            yield Ends(f"kafka:{self.boot}", f"{name}-in", f"{name}-out", name)
        else:
            yield Ends(mqtt, source, sink, name)
        self.up.apply(self.document(None, name))


@dataclass(frozen=True, slots=True)
class Ends:
    """Where messages go in and come out."""

    where: str
    source: str
    sink: str
    name: str
    #: Processes that count as the system's own; by default those of the coordinator.
    pids: Sequence[int] = ()


def sent(rig: Rig, ends: Ends, rate: int, count: int) -> tuple[dict[str, Any], list[float]]:
    """Send messages and see them come out: what the sender told, and when each was seen."""
    first = rig.numbers(count)
    limit = LIMIT_SECONDS + (count / rate if rate else 0)
    file = rig.place / f"seen-{first}.json"
    receive = ["receive", ends.where, ends.sink, str(first), str(count), str(file), str(limit)]
    sender = ["send", ends.where, ends.source, str(rate), str(first), str(count)]
    with ExitStack() as stack:
        receiving = stack.enter_context(talking([*_LOAD, *receive], rig.place / "receive.log"))
        receiving.hear(60)
        sending = stack.enter_context(talking([*_LOAD, *sender], rig.place / "send.log"))
        told: dict[str, Any] = json.loads(sending.hear(limit)[1])
        receiving.wait(limit + LATE_SECONDS)
    seen = json.loads(file.read_text())
    file.unlink()
    told["lost"] = sum(1 for at in seen["seen"] if not at)
    told["doubles"] = seen["doubles"]
    return told, seen["seen"]


def at_once(rig: Rig, ends: Ends) -> dict[str, Any]:
    """Send messages as fast as the broker takes them, after some that only warm up."""
    setting = rig.setting
    sent(rig, ends, 0, setting.warm_up)
    used = Spent(ends.pids or rig.up.talker.process.pid)
    told, seen = sent(rig, ends, 0, setting.messages)
    came = sorted(at for at in seen if at)
    fifth = len(came) // 5
    seconds = came[-1] - told["start"]
    return {
        "rate": len(came) / seconds,
        "middle_rate": 3 * fifth / (came[4 * fifth - 1] - came[fifth - 1]),
        "sent_rate": len(seen) / (told["over"] - told["start"]),
        "first_ms": (came[0] - told["start"]) * 1e3,
        "cores": used.by_process(seconds),
        "cpu_ms": used.total() * 1e6 / len(came),
        "load": os.getloadavg()[0],
        **{name: told[name] for name in ("lost", "doubles")},
    }


def steadily(rig: Rig, ends: Ends) -> dict[str, Any]:
    """Send at a rate, the first seconds only to warm up, and return how long each took."""
    setting = rig.setting
    warm = setting.rate * 5
    began = time.time()
    told, seen = sent(rig, ends, setting.rate, warm + setting.rate * setting.seconds)
    histogram = Histogram()
    for place, at in enumerate(seen):
        if at and place >= warm:
            histogram.add(at - told["start"] - place / setting.rate)
    half, late = histogram.p(50), histogram.p(99)
    return {
        "p50_ms": None if half is None else half * 1e3,
        "p99_ms": None if late is None else late * 1e3,
        "batch_ms": batches(rig.up, ends.name, began + 5),
        "steady_lost": told["lost"],
        "steady_doubles": told["doubles"],
        "sender_late_ms": told["late"] * 1e3,
    }


@contextmanager
def rigged(setting: Setting) -> Iterator[Rig]:
    """Start both brokers and a coordinator for the time of a block; all of it is gone after."""
    cache = Folders.of().cache
    java = find_java(cache)
    (jars,) = fetch_jars(["kafka"], java, cache)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ExitStack() as stack:
        place = Path(folder)
        kafka = ManagedKafka(place / "kafka", java, jars)
        mosquitto = ManagedMqtt(place / "mqtt", {"autosave": AUTOSAVE}, recorded=False)
        for broker in (kafka, mosquitto):
            stack.callback(broker.stop)
            broker.start()
        boot = kafka.status().clients["java"]["bootstrap.servers"]
        yield Rig(place, place / "mqtt", boot, stack.enter_context(up()), setting)


def measure(setting: Setting) -> CrossingPart:
    """Run all by turns."""
    part = CrossingPart("mqtt")
    with rigged(setting) as rig:
        for number in range(setting.runs):
            for system in SYSTEMS[:: -1 if number % 2 else 1]:
                with rig.running(system) as ends:
                    run = {**at_once(rig, ends), **steadily(rig, ends)}
                part.runs.append({"round": number, "system": system, **run})
                setting.say(
                    f"{system}: {run['rate']:,.0f}/s, p50 {run['p50_ms']:.0f} ms, "
                    f"batch {run['batch_ms'] or 0:.0f} ms, {cores_of(run['cores'])}"
                )
    judge(part)
    return part


def judge(part: CrossingPart) -> None:
    """Make the table and the bars of the runs."""
    for system in SYSTEMS:
        part.rows[system] = medians((r for r in part.runs if r["system"] == system), _COLUMNS)
    plain, kafka = part.rows[PLAIN], part.rows[KAFKA]
    for system in (BRIDGE, SQL):
        row = part.rows[system]
        compared = ratio(row.get("rate"), plain.get("rate"))
        part.bars.append(
            Bar(f"{system}: rate against a plain bridge", compared, LEAST, at_most=False)
        )
        allowed = (kafka.get("p50_ms") or 0.0) + (kafka.get("batch_ms") or 0.0)
        name = f"{system}: p50 against Kafka's p50 and one batch"
        own = (kafka.get("p50_ms") or 0.0) + (row.get("batch_ms") or 0.0)
        part.bars.append(Bar(f"{name} of its own", ratio(row.get("p50_ms"), own), 1.0))
        part.bars.append(Bar(f"{name} of Kafka's", ratio(row.get("p50_ms"), allowed), 1.0))
    lost = sum(run["lost"] + run["steady_lost"] for run in part.runs)
    part.bars.append(Bar("messages lost", float(lost), 0))
