"""A coordinator over two sites with a Kafka and a Spark each: changes without loss."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from millrace.agent.agent import Agent
from millrace.agent.brokers import site_place
from millrace.agent.fleet import Tools
from millrace.agent.workshop import SiteWorkshop
from millrace.coordinator.operation import Operation, OperationState
from millrace.coordinator.revision import Submission
from millrace.coordinator.rounds import Bell, Rounds
from millrace.coordinator.service import Clocks, Coordinator
from millrace.coordinator.tenure import Around, Holder, take
from millrace.engines.spark.engine import SparkEngine
from millrace.errors import OperationFailed
from millrace.machine import Folders, Java, fetch_jars
from millrace.model.pipeline import Pipeline
from millrace.ports import JobState, Log, Record
from millrace.spec import load_text
from millrace.stores.archive import pack
from millrace.stores.artifacts import Artifacts, LocalDepot
from millrace.stores.sqlite import SqliteStore

pytestmark = pytest.mark.timeout(600)
LIMIT = 180.0
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


@dataclass
class Depot:
    """A depot of which nothing can be had while it is lost."""

    local: LocalDepot
    lost: bool = False

    def fetch(self, artifact: str) -> Path:
        if self.lost:
            raise OperationFailed("no-artifact", "the disk with artifacts is gone")
        return self.local.fetch(artifact)

    def send(self, file: Path) -> str:
        return self.local.send(file)


@dataclass
class Cloud:
    """A coordinator, in this process, with the sites of one pipeline."""

    folders: Folders
    tools: Tools
    file: Path
    shops: dict[str, SiteWorkshop] = field(default_factory=dict)
    coordinator: Coordinator | None = None
    rounds: Rounds = field(init=False)
    depot: Depot = field(init=False)

    def up(self) -> Coordinator:
        depot = self.depot = Depot(LocalDepot(Artifacts(self.folders.state / "artifacts")))

        def workshop(pipeline: str, site: str) -> SiteWorkshop:
            shop = SiteWorkshop(pipeline, site, self.folders, lambda: self.tools, depot)
            return self.shops.setdefault(site, shop)

        agent = Agent(workshop, lambda pipeline, site: site_place(self.folders, pipeline, site))
        around = Around(lambda _: False, time.monotonic, time.sleep)
        tenure = take(SqliteStore(self.file), Holder("here", 1, 0.0), around)
        made = Coordinator(tenure, Clocks(time.time, time.monotonic))
        self.rounds = Rounds(
            made, agent, Bell(), lambda _, goal: goal, lambda _, __: True, lambda: None
        )
        self.coordinator = made
        return made

    def apply(self, wanted: Pipeline, code: str | None = None) -> Operation:
        assert self.coordinator is not None
        begun = self.coordinator.apply(Submission(wanted, code=code))
        until = time.monotonic() + LIMIT
        while not (found := self.coordinator.operation(begun.id)).state.over:
            assert time.monotonic() < until, found
            self.rounds.round()
            time.sleep(0.05)
        return found

    def send(self, numbers: range) -> None:
        records = [Record(json.dumps({"n": n}).encode(), str(n).encode()) for n in numbers]
        self.shops["north"].broker(roads("north")).log.write("raw", records)

    def read(self, count: int) -> Counter[int]:
        log = self.shops["cloud"].broker(roads("north")).log
        self.wait_for(log, count)
        ends = {part: span.end for part, span in log.ends("out").items()}
        found = log.read("out", dict.fromkeys(ends, 0), ends)
        return Counter(json.loads(record.value or b"")["h"] for record in found)

    def wait_for(self, log: Log, count: int, stream: str = "out") -> None:
        """Go on until there are so many results."""
        assert self.coordinator is not None
        until = time.monotonic() + LIMIT
        while sum(span.end for span in log.ends(stream).values()) < count:
            assert time.monotonic() < until, (log.ends(stream), self.coordinator.boards)
            self.rounds.round()
            time.sleep(0.05)

    def runs(self) -> set[tuple[str, str]]:
        return {
            (name, site)
            for site, shop in self.shops.items()
            for driver in shop.drivers.all
            for name, status in driver.status().items()
            if status.state is JobState.RUNNING
        }


@pytest.fixture
def cloud(java: Java, folders: Folders, jars: Path, tmp_path: Path) -> Iterator[Cloud]:
    own = Folders(tmp_path / "home", folders.cache)
    (connector,) = fetch_jars(["spark-kafka"], java, folders.cache)
    made = Cloud(own, Tools(java, jars, connector, own), tmp_path / "state.db")
    made.up()
    try:
        yield made
    finally:
        for shop in made.shops.values():
            shop.close()


def test_a_job_moves_between_sites_and_nothing_is_lost_or_twice(cloud: Cloud) -> None:
    assert cloud.apply(roads("north")).state is OperationState.DONE
    assert cloud.runs() == {("even", "north"), ("half", "north")}
    cloud.send(range(1000))
    cloud.read(300)
    moved = cloud.apply(roads("cloud"))
    assert moved.state is OperationState.DONE
    assert [step.id for step in moved.plan.steps] == ["move job half"]
    assert cloud.runs() == {("even", "north"), ("half", "cloud")}
    cloud.send(range(1000, 2000))
    assert cloud.read(1000) == Counter(range(1000))
    check_another_driver(cloud)


def check_another_driver(cloud: Cloud) -> None:
    """Another group, and other settings of an engine, mean another driver; the job goes on."""
    text = ROADS.replace("MODE", "micro-batch").replace("half: {site: SITE", "half: {site: cloud")
    before = {driver.place.name for driver in drivers(cloud, "cloud")}
    grouped = text.replace("half: {site", "half: {group: g, site").replace("jobs:", GROUPS)
    assert cloud.apply(load_text(grouped).required()).state is OperationState.DONE
    assert {driver.place.name for driver in drivers(cloud, "cloud")} == before | {"g"}
    cloud.send(range(2000, 2500))
    options = f"engine: {{options: {{{MAX}: 2}}}}"
    set_ = grouped.replace("cloud: {broker", f"cloud: {{{options}, broker")
    assert cloud.apply(load_text(set_).required()).state is OperationState.DONE
    main, runs = drivers(cloud, "cloud")  # that of the group with other settings has ended
    assert main.place.name == "main"
    assert json.loads((runs.place / "driver.json").read_text())["options"] == {MAX: "2"}
    assert cloud.runs() == {("even", "north"), ("half", "cloud")}
    cloud.send(range(2500, 3000))
    assert cloud.read(1500) == Counter(range(1500))


MAX = "spark.task.maxFailures"
GROUPS = "groups: {g: {}}\njobs:"


def drivers(cloud: Cloud, site: str) -> list[SparkEngine]:
    return [one for one in cloud.shops[site].drivers.all if isinstance(one, SparkEngine)]


WINDOWS = """
pipeline: roads
sites: {north: {broker: kafka}, cloud: {broker: kafka}}
streams:
  raw: {site: north, schema: {n: int, at: timestamp, car: string}}
  out: {site: cloud}
  sums: {site: cloud, schema: {n: int, car: string, sum: long}}
jobs:
  count:
    site: SITE
    from: raw
    to: out
    window: {of: 10 s, by: at, late: count}
    aggregate: {n: count(*), sum: sum(n)}
  sums: {site: SITE, from: raw, to: sums, state: {code: "sums:Sum", key: car}}
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
    log.write("raw", timed(range(95)))  # nine windows are closed by that, one is open
    out = cloud.shops["cloud"].broker(windows("north")).log
    cloud.wait_for(out, 9)
    cloud.wait_for(out, 95, "sums")
    cloud.depot.lost = True
    failed = cloud.apply(windows("cloud"), code)
    assert failed.state is OperationState.UNDONE
    assert "the disk with artifacts is gone" in failed.reason
    assert cloud.runs() == {("count", "north"), ("sums", "north")}
    log.write("raw", timed(range(95, 125)))
    cloud.wait_for(out, 12)
    cloud.depot.lost = False
    moved = cloud.apply(windows("cloud"), code)
    assert moved.state is OperationState.DONE
    assert cloud.runs() == {("count", "cloud"), ("sums", "cloud")}
    assert moved.downtime["move job count"] > 0
    log.write("raw", timed(range(125, 200)))
    cloud.wait_for(out, 19)
    cloud.wait_for(out, 200, "sums")
    check_windows(rows(out, "out"))
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
