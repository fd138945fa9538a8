"""Streams of MQTT through Spark jobs: received into spools, bridged to Kafka and back, moved."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.model.pipeline import Pipeline
from millrace.ports import Log, Record
from millrace.spec import load_text
from tests.changes.stage import LIMIT, Stage, stage

pytestmark = pytest.mark.timeout(600)
FILE = """
pipeline: crossing
sites: {edge: {broker: mqtt}, cloud: {broker: kafka}}
defaults: {streams: {site: edge, schema: {n: int}}}
streams:
  raw: {topic: sensors/raw}
  even: {topic: sensors/even}
  up: {site: cloud}
  back: {topic: sensors/back}
jobs:
  even: {site: SITE, from: raw, to: even, sql: SELECT n FROM raw WHERE n % 2 = 0}
  up: {site: cloud, from: even, to: up, bridge: true}
  back: {site: edge, from: up, to: back, bridge: true}
"""


def pipeline(site: str) -> Pipeline:
    return load_text(FILE.replace("SITE", site)).required()


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as found:
        yield found


def records(numbers: range) -> list[Record]:
    return [Record(json.dumps({"n": n}).encode(), str(n).encode()) for n in numbers]


def read(log: Log, stream: str) -> Counter[tuple[bytes | None, int]]:
    ends = {part: span.end for part, span in log.ends(stream).items()}
    found = log.read(stream, dict.fromkeys(ends, 0), ends)
    return Counter((record.key, json.loads(record.value or b"")["n"]) for record in found)


def total(log: Log, stream: str) -> int:
    return sum(span.end for span in log.ends(stream).values())


def wanted(until: int) -> Counter[tuple[bytes | None, int]]:
    return Counter((str(n).encode(), n) for n in range(0, until, 2))


def received(sites: Stage) -> int:
    """What the receiver of the first job says that it took."""
    (job,) = (job for job in sites.station.jobs("crossing") if job.name == "even")
    counts = job.received.get("raw", {})
    return counts.get("received", 0) - counts.get("redelivered", 0)


def test_records_cross_from_mqtt_to_kafka_and_back_while_a_job_moves(sites: Stage) -> None:
    """The job that moves takes what was received for it along; nothing is lost or twice."""
    assert sites.apply(pipeline("edge")).state == "done"
    edge, cloud = (sites.log(pipeline("edge"), stream) for stream in ("back", "up"))
    assert total(edge, "sensors/back") == 0  # a recording of it begins
    edge.write("sensors/raw", records(range(1000)))
    sites.until(lambda: total(edge, "sensors/back") >= 500, LIMIT)
    assert read(cloud, "up") == wanted(1000)
    assert read(edge, "sensors/back") == wanted(1000)
    sites.until(lambda: received(sites) == 1000, LIMIT)  # that is shown while somebody looks
    before = sites.runs("crossing")
    edge.write("sensors/raw", records(range(1000, 2000)))
    moved = sites.apply(pipeline("cloud"))
    assert moved.state == "done", moved
    after = sites.runs("crossing")
    assert {job for job in before if before[job] == after[job]} == {"up", "back"}
    edge.write("sensors/raw", records(range(2000, 3000)))
    sites.until(lambda: total(edge, "sensors/back") >= 1500, LIMIT)
    assert read(edge, "sensors/back") == wanted(3000)
