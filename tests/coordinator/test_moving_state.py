"""State that moves between two sites with a Kafka and a Spark each, in the middle of its work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.coordinator.operation import OperationState
from millrace.machine import Folders
from millrace.model.pipeline import Pipeline
from millrace.ports import Log, Record
from millrace.spec import load_text
from millrace.stores.archive import pack
from tests.coordinator.cloud import Cloud, clouded

pytestmark = pytest.mark.timeout(600)
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


@pytest.fixture
def cloud(folders: Folders, jars: Path, tmp_path: Path) -> Iterator[Cloud]:
    del jars  # they are there
    with clouded(folders, tmp_path) as made:
        yield made


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
