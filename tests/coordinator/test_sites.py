"""A coordinator over two sites with a Kafka and a Spark each: changes without loss.

The sites stay up: what is tried last takes the place of what was there before.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.coordinator.operation import OperationState
from millrace.engines.spark.engine import SparkEngine
from millrace.machine import Folders
from millrace.model.pipeline import Pipeline
from millrace.ports import Log, Record
from millrace.spec import load_text
from millrace.stores.archive import pack
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


@pytest.fixture(scope="module")
def cloud(
    folders: Folders, jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cloud]:
    del jars  # they are there
    with clouded(folders, tmp_path_factory.mktemp("cloud")) as made:
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


WINDOWS = """
pipeline: roads
sites: {north: {broker: kafka}, cloud: {broker: kafka}}
streams:
  cars: {site: north, schema: {n: int, at: timestamp, car: string}}
  counts: {site: cloud}
  sums: {site: cloud, schema: {n: int, car: string, sum: long}}
jobs:
  count:
    site: SITE
    from: cars
    to: counts
    window: {of: 10 s, by: at, late: count}
    aggregate: {n: count(*), sum: sum(n)}
  sums: {site: SITE, from: cars, to: sums, state: {code: "sums:Sum", key: car}}
"""
CODE = """
class Sum:
    sum: int = 0

    def on_record(self, record, now):
        self.sum += record["n"]
        return {"n": record["n"], "car": record["car"], "sum": self.sum}
"""


def windows(site: str) -> Pipeline:
    return load_text(WINDOWS.replace("SITE", site)).required()


def timed(numbers: range) -> list[Record]:
    return [Record(json.dumps(_passing(n)).encode()) for n in numbers]


def _passing(n: int) -> dict[str, object]:
    return {"n": n, "at": f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z", "car": f"c{n % 3}"}


def rows(log: Log, stream: str) -> list[dict[str, Any]]:
    """All results of a stream."""
    ends = {part: span.end for part, span in log.ends(stream).items()}
    found = log.read(stream, dict.fromkeys(ends, 0), ends)
    return [json.loads(record.value or b"") for record in found]


def test_state_moves_in_the_middle_with_what_it_holds(cloud: Cloud, tmp_path: Path) -> None:
    """The results are those of a run without the move: no window is lost, cut or told twice.

    The same holds for a state of each car. The first try fails at the new place: it is undone, and
    both go on at the old one.
    """
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "sums.py").write_text(CODE)
    code = cloud.depot.local.artifacts.put([pack(folder)])
    assert cloud.apply(windows("north"), code).state is OperationState.DONE
    log = cloud.shops["north"].broker(windows("north")).log
    log.write("cars", timed(range(95)))  # nine windows are closed by that, one is open
    out = cloud.shops["cloud"].broker(windows("north")).log
    cloud.wait_for(out, 9, "counts")
    cloud.wait_for(out, 95, "sums")
    cloud.depot.lost = True
    failed = cloud.apply(windows("cloud"), code)
    assert failed.state is OperationState.UNDONE
    assert "the disk with artifacts is gone" in failed.reason
    assert cloud.runs() == {("count", "north"), ("sums", "north")}
    log.write("cars", timed(range(95, 125)))
    cloud.wait_for(out, 12, "counts")
    cloud.depot.lost = False
    moved = cloud.apply(windows("cloud"), code)
    assert moved.state is OperationState.DONE
    assert cloud.runs() == {("count", "cloud"), ("sums", "cloud")}
    assert moved.downtime["move job count"] > 0
    log.write("cars", timed(range(125, 200)))
    cloud.wait_for(out, 19, "counts")
    cloud.wait_for(out, 200, "sums")
    check_windows(rows(out, "counts"))
    sums = sorted(rows(out, "sums"), key=lambda row: int(row["n"]))
    assert sums == [
        {"n": n, "car": f"c{n % 3}", "sum": sum(range(n % 3, n + 1, 3))} for n in range(200)
    ]


def check_windows(found: list[dict[str, Any]]) -> None:
    """Each window is there once, with all that belongs to it."""
    wanted = {10 * w: (10, sum(range(10 * w, 10 * w + 10))) for w in range(19)}
    starts = {int(row["start"][14:16]) * 60 + int(row["start"][17:19]): row for row in found}
    assert {start: (row["n"], row["sum"]) for start, row in starts.items()} == wanted
    assert len(found) == len(wanted)
