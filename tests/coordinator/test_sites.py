"""A coordinator over two sites with a Kafka and a Spark each: changes without loss."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.coordinator.operation import OperationState
from millrace.engines.spark.engine import SparkEngine
from millrace.machine import Folders
from millrace.model.pipeline import Pipeline
from millrace.ports import Record
from millrace.spec import load_text
from tests.coordinator.cloud import Cloud, clouded

pytestmark = pytest.mark.timeout(600)
ROADS = """
pipeline: roads
sites: {north: {broker: kafka}, cloud: {broker: kafka}}
streams:
  raw: {site: north, schema: {n: int}, partitions: 2}
  even: {site: north, partitions: 2}
  out: {site: cloud, partitions: 2}
jobs:
  even: {site: north, from: raw, to: even, sql: "SELECT n FROM raw WHERE n % 2 = 0", mode: MODE}
  half: {site: SITE, from: even, to: out, sql: "SELECT n DIV 2 AS h FROM even", mode: MODE}
"""


def roads(site: str, mode: str = "micro-batch") -> Pipeline:
    return load_text(ROADS.replace("SITE", site).replace("MODE", mode)).required()


@pytest.fixture
def cloud(folders: Folders, jars: Path, tmp_path: Path) -> Iterator[Cloud]:
    del jars  # they are there
    with clouded(folders, tmp_path) as made:
        yield made


def send(cloud: Cloud, numbers: range) -> None:
    records = [Record(json.dumps({"n": n}).encode(), str(n).encode()) for n in numbers]
    cloud.shops["north"].broker(roads("north")).log.write("raw", records)


def read(cloud: Cloud, count: int) -> Counter[int]:
    log = cloud.shops["cloud"].broker(roads("north")).log
    cloud.wait_for(log, count)
    ends = {part: span.end for part, span in log.ends("out").items()}
    found = log.read("out", dict.fromkeys(ends, 0), ends)
    return Counter(json.loads(record.value or b"")["h"] for record in found)


def test_a_job_moves_between_sites_and_nothing_is_lost_or_twice(cloud: Cloud) -> None:
    assert cloud.apply(roads("north")).state is OperationState.DONE
    assert cloud.runs() == {("even", "north"), ("half", "north")}
    send(cloud, range(1000))
    read(cloud, 300)
    moved = cloud.apply(roads("cloud"))
    assert moved.state is OperationState.DONE
    assert [step.id for step in moved.plan.steps] == ["move job half"]
    assert cloud.runs() == {("even", "north"), ("half", "cloud")}
    send(cloud, range(1000, 2000))
    assert read(cloud, 1000) == Counter(range(1000))
    check_another_driver(cloud)


def check_another_driver(cloud: Cloud) -> None:
    """Another group, and other settings of an engine, mean another driver; the job goes on."""
    text = ROADS.replace("MODE", "micro-batch").replace("half: {site: SITE", "half: {site: cloud")
    before = {driver.place.name for driver in drivers(cloud, "cloud")}
    grouped = text.replace("half: {site", "half: {group: g, site").replace("jobs:", GROUPS)
    assert cloud.apply(load_text(grouped).required()).state is OperationState.DONE
    assert {driver.place.name for driver in drivers(cloud, "cloud")} == before | {"g"}
    send(cloud, range(2000, 2500))
    options = f"engine: {{options: {{{MAX}: 2}}}}"
    set_ = grouped.replace("cloud: {broker", f"cloud: {{{options}, broker")
    assert cloud.apply(load_text(set_).required()).state is OperationState.DONE
    main, runs = drivers(cloud, "cloud")  # that of the group with other settings has ended
    assert main.place.name == "main"
    assert json.loads((runs.place / "driver.json").read_text())["options"] == {MAX: "2"}
    assert cloud.runs() == {("even", "north"), ("half", "cloud")}
    send(cloud, range(2500, 3000))
    assert read(cloud, 1500) == Counter(range(1500))


MAX = "spark.task.maxFailures"
GROUPS = "groups: {g: {}}\njobs:"


def drivers(cloud: Cloud, site: str) -> list[SparkEngine]:
    return [one for one in cloud.shops[site].drivers.all if isinstance(one, SparkEngine)]
