"""The road-traffic pipeline at one site: as its file has it, and with chains as one query each.

As it is, the records of a sensor are cleaned into their edge's stream, which is read to be
forwarded and for the statistics. Fused, the cleaned records of a sensor are a transient stream: one
query reads them, cleans them, and writes both, so that forwarding reads nothing.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.streams.pipeline import Pipeline, running, spent
from bench.streams.results import Bar, Part, median, ratio
from bench.streams.setting import Setting
from bench.streams.topics import QUIET, End
from millrace.agent.brokers import site_place
from millrace.agent.progress import progress_at
from millrace.machine import Folders

CODE = Path(__file__).parents[2] / "examples" / "road-traffic" / "traffic.py"
LIMIT_SECONDS, UP_SECONDS = 300.0, 180.0
LEAST, RUNS = 1.5, 3
EDGES = {"north": (1, 2, 3, 4), "west": (5, 6, 7), "south": (8, 9, 10)}
SENSORS = tuple(sensor for sensors in EDGES.values() for sensor in sensors)
#: Each as (fused, with the statistics): what the windows cost is no part of what can be fused.
KINDS = {
    "as it is": (False, True),
    "fused": (True, True),
    "no statistics": (False, False),
    "no statistics, fused": (True, False),
}
MERGED_PARTS, PROBES, BAD = 6, 60, 10
_PASSING = "{vehicle: string, speed: double, at: timestamp}"
_SUMMARY = "{start: timestamp, vehicles: long, speed: double}"
_CLEAN = "SELECT * FROM raw WHERE vehicle IS NOT NULL AND speed BETWEEN 0 AND 250"


def text(*, fused: bool, statistics: bool) -> str:
    """Return the file, of the jobs and windows of the example."""
    lines = ["pipeline: bench", "sites: {here: {broker: kafka}}"]
    lines += [f"defaults: {{streams: {{partitions: 2, key: vehicle, schema: {_PASSING}}}}}"]
    lines += ["streams:", "  rejected: {format: raw, key: ~, schema: ~}"]
    lines += [f"  merged: {{partitions: {MERGED_PARTS}}}"]
    lines += [f"  raw-{s}: {{dead_letters: rejected}}" for s in SENSORS]
    if fused:
        lines += [f"  sensor-{s}: {{transient: true}}" for s in SENSORS]
    if statistics:
        for stream in ("global", *(f"local-{edge}" for edge in EDGES)):
            lines.append(f"  {stream}: {{key: start, schema: {_SUMMARY}}}")
    if statistics or not fused:
        lines += [f"  clean-{edge}: {{}}" for edge in EDGES]
    lines += ["jobs:"]
    for edge, sensors in EDGES.items():
        for s in sensors:
            to = f"sensor-{s}" if fused else f"clean-{edge}"
            lines.append(_job(f"clean-{s}", f"{{stream: raw-{s}, as: raw}}", to, _CLEAN))
            source, query = f"{{stream: sensor-{s}, as: rows}}", "SELECT * FROM rows"
            if fused:
                lines.append(_job(f"forward-{s}", source, "merged", query))
            if fused and statistics:
                lines.append(_job(f"keep-{s}", source, f"clean-{edge}", query))
        if not fused:
            source = f"{{stream: clean-{edge}, as: clean}}"
            lines.append(_job(f"forward-{edge}", source, "merged", "SELECT * FROM clean"))
    if statistics:
        for edge in EDGES:
            lines.append(_summed(f"local-{edge}", f"clean-{edge}", "of: 10 s, every: 2 s", 5))
        lines.append(_summed("global", "merged", "of: 1 min", 10))
    return "\n".join(lines) + "\n"


def _summed(name: str, source: str, said: str, lateness: int) -> str:
    window = f"{{{said}, by: at, lateness: {lateness} s}}"
    return f'  {name}: {{from: {source}, to: {name}, window: {window}, python: "traffic:summary"}}'


def _job(name: str, source: str, to: str, query: str) -> str:
    return f'  {name}: {{from: {source}, to: {to}, sql: "{query}"}}'


def measure(setting: Setting) -> Part:
    """Run both by turns."""
    part = Part("traffic")
    count = setting.records // 2
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for number in range(min(RUNS, setting.runs)):
            for kind in list(KINDS)[:: -1 if number % 2 else 1]:
                fused, statistics = KINDS[kind]
                place = Path(folder) / f"{number}-{list(KINDS).index(kind)}"
                run = _run(place, count, fused=fused, statistics=statistics)
                part.runs.append({"round": number, "kind": kind, **run})
                setting.say(f"{kind}: {run['per_core']:,.0f} records/s of a core")
    names = ("per_core", "rate", "p50_seconds", "written_mb", "read_mb", "queries")
    for kind in KINDS:
        runs = [run for run in part.runs if run["kind"] == kind]
        part.rows[kind] = {name: median([run[name] for run in runs]) for name in names}
    for kind, other in (("fused", "as it is"), ("no statistics, fused", "no statistics")):
        gain = ratio(part.rows[kind]["per_core"], part.rows[other]["per_core"])
        part.bars.append(Bar(f"{kind}: records of a core", gain, LEAST, at_most=False))
    return part


def _run(place: Path, count: int, *, fused: bool, statistics: bool) -> dict[str, Any]:
    place.mkdir(parents=True)
    shutil.copy(CODE, place / "traffic.py")
    topics = ["merged", *(f"raw-{s}" for s in SENSORS)]
    with running(text(fused=fused, statistics=statistics), place) as pipeline:
        boot = pipeline.broker(topics, UP_SECONDS)
        hops = _probed(pipeline, boot)
        used, began = spent(pipeline.talker.process.pid), time.monotonic()
        _fill(boot, count)
        valid = count - count // BAD
        _merged(pipeline, boot, len(hops) + valid)
        if statistics:
            _summed_up(pipeline, len(hops) + valid)
        seconds = time.monotonic() - began
        cpu = spent(pipeline.talker.process.pid) - used
        sizes = _sizes(pipeline.home)
        pipeline.check()
    return {
        "rate": count / seconds,
        "cpu_seconds": cpu,
        "per_core": count / cpu,
        "p50_seconds": median(hops),
        "hops_seconds": hops,
        "written_mb": sum(size for name, size in sizes.items() if "raw" not in name) / 1e6,
        "read_mb": _read_bytes(sizes, fused=fused, statistics=statistics) / 1e6,
        "queries": float(len(SENSORS) + 4 * statistics + (0 if fused else 3)),
    }


def _value(number: int, start: datetime, vehicle: str | None = None) -> bytes:
    at = start + timedelta(milliseconds=number)
    speed = 88.5 if number % BAD or vehicle else 300.0
    name = vehicle or f"AB{number % 1000:03}CD"
    return json.dumps({"vehicle": name, "speed": speed, "at": f"{at:%FT%T.%fZ}"}).encode()


_START = datetime(2026, 1, 1, tzinfo=UTC)


def _fill(boot: str, count: int) -> None:
    producer = Producer(
        {"bootstrap.servers": boot, "linger.ms": 20, "queue.buffering.max.messages": 2_000_000}
    )
    for number in range(count):
        topic = f"raw-{SENSORS[number // BAD % len(SENSORS)]}"
        producer.produce(topic, _value(number, _START + timedelta(hours=1)))
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise TimeoutError(boot)


def _probed(pipeline: Pipeline, boot: str) -> list[float]:
    """How long records take to `merged`, one after another; the first ones only warm up."""
    producer = Producer({"bootstrap.servers": boot, "linger.ms": 0, **QUIET})
    settings = {"bootstrap.servers": boot, "group.id": "probe", "fetch.wait.max.ms": 10, **QUIET}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition("merged", part, 0) for part in range(MERGED_PARTS)])
    hops: list[float] = []
    try:
        for number in range(PROBES):
            began = time.monotonic()
            producer.produce("raw-1", _value(number + 1, _START, f"probe-{number}"))
            producer.flush(30)
            while (message := consumer.poll(0.2)) is None or message.error():
                pipeline.check()
                if time.monotonic() - began > UP_SECONDS:
                    raise TimeoutError(boot)
            hops.append(time.monotonic() - began)
    finally:
        consumer.close()
    return hops


def _reads(home: Path) -> dict[str, int]:
    """How many records the jobs with windows have read."""
    every = progress_at(Folders.of(home), "bench")
    names = ("global", *(f"local-{edge}" for edge in EDGES))
    return {name: every[name].fates.read if name in every else 0 for name in names}


def _merged(pipeline: Pipeline, boot: str, wanted: int) -> None:
    """Wait until all is merged."""
    end = End(boot, "merged", MERGED_PARTS)
    try:
        end.wait(wanted, LIMIT_SECONDS, pipeline.check)
    finally:
        end.close()


def _summed_up(pipeline: Pipeline, wanted: int) -> None:
    """Wait until the statistics have read all of it."""
    until = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < until:
        reads = _reads(pipeline.home)
        edges = sum(read for name, read in reads.items() if name != "global")
        if reads["global"] >= wanted and edges >= wanted:
            return
        time.sleep(0.2)
    message = f"the statistics have read {_reads(pipeline.home)} of {wanted}"
    raise TimeoutError(message)


def _sizes(home: Path) -> dict[str, int]:
    """Bytes on the broker by stream."""
    data = site_place(Folders.of(home), "bench", "here") / "kafka" / "data"
    found: dict[str, int] = {}
    for file in data.glob("*/*.log"):
        name = file.parent.name.rpartition("-")[0]
        found[name] = found.get(name, 0) + file.stat().st_size
    return {name: size for name, size in found.items() if not name.startswith("__")}


def _read_bytes(sizes: dict[str, int], *, fused: bool, statistics: bool) -> int:
    """Bytes that jobs read: an edge's stream is read to be forwarded, and for the statistics."""
    readers = {"raw-": 1, "clean-": statistics + (not fused), "merged": int(statistics)}
    return sum(
        size * next((count for begin, count in readers.items() if name.startswith(begin)), 0)
        for name, size in sizes.items()
    )
