"""Joins of streams, with a table, and what comes once, against plain Python."""
# ruff: noqa: S608 - queries of a pipeline text, from constants

from __future__ import annotations

import os
import random
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from millrace.ports import Record
from tests.engines.spark.exact import CUTS
from tests.engines.spark.lab import Case, Lab, json_record, objects

pytestmark = [pytest.mark.xdist_group("spark-state"), pytest.mark.timeout(600)]
SEED = int(os.environ.get("SEED", "1"))
MOST = "maxOffsetsPerTrigger"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
ON = "v.id = c.view AND c.at BETWEEN v.at AND v.at + INTERVAL 30 SECONDS"
JOINS = f"""
defaults: {{streams: {{partitions: 2}}, jobs: {{mode: drain}}}}
streams:
  views: {{schema: {{id: int, at: timestamp}}}}
  clicks: {{schema: {{view: int, at: timestamp}}}}
  names: {{schema: {{view: int, name: string}}, key: view, compact: true}}
  inner: {{}}
  outer: {{}}
  first: {{}}
  named: {{}}
jobs:
  inner:
    from: &timed
      - {{stream: views, by: at, lateness: 20 s}}
      - {{stream: clicks, by: at, lateness: 20 s}}
    to: inner
    sql: "SELECT v.id, v.at AS seen, c.at AS clicked FROM views v JOIN clicks c ON {ON}"
  outer:
    from: *timed
    to: outer
    sql: "SELECT v.id, v.at AS seen, c.at AS clicked FROM views v LEFT JOIN clicks c ON {ON}"
  first:
    from: {{stream: clicks, by: at, unique: view, within: 20 s}}
    to: first
    sql: "SELECT view, at FROM clicks"
  named:
    from: [clicks, {{stream: names, table: true}}]
    to: named
    sql: "SELECT c.view, n.name FROM clicks c LEFT JOIN names n ON c.view = n.view"
"""


def moment(seconds: float) -> str:
    return (EPOCH + timedelta(seconds=seconds)).isoformat()


def made(seed: int, count: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Views, and clicks on some of them, a little out of order; equal times among them."""
    rng = random.Random(seed)
    views = [{"id": n, "at": float(n // 3)} for n in range(count)]
    clicks = [
        {"view": view["id"], "at": view["at"] + rng.choice([-5, 0, 7, 30, 31, 45])}
        for view in views
        for _ in range(rng.choice([0, 1, 1, 2]))
    ]
    clicks.sort(key=lambda click: click["at"] + rng.uniform(0, 15))
    return views, clicks


@seed(SEED)
@settings(
    max_examples=min(CUTS // 15, 10),
    phases=[Phase.generate],  # to make a failure smaller would take long
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(limit=st.integers(40, 400), share=st.floats(0.1, 0.9))
def test_joins_of_streams_equal_plain_python(lab: Lab, limit: int, share: float) -> None:
    """Batches end after so many records, and a first drain after a share of all."""
    views, clicks = made(limit, 120)
    text = JOINS.replace("{mode: drain}", f"{{mode: drain, options: {{{MOST}: {limit}}}}}")
    with lab.case(text) as case:
        for part in (0, 1):  # the second drain finds what the first kept
            half, end = int(len(views) * share), int(len(clicks) * share)
            lot = slice(0, half) if part == 0 else slice(half, None)
            cut = slice(0, end) if part == 0 else slice(end, None)
            rows = [{**row, "at": moment(row["at"])} for row in views[lot]]
            case.send("views", [json_record(str(row["id"]), **row) for row in rows])
            rows = [{**row, "at": moment(row["at"])} for row in clicks[cut]]
            case.send("clicks", [json_record(str(row["view"]), **row) for row in rows])
            case.drain("inner", "outer")
        close(case)
        case.drain("inner", "outer")
        pairs = [
            (view["id"], view["at"], click["at"])
            for view in views
            for click in clicks
            if view["id"] == click["view"] and 0 <= click["at"] - view["at"] <= 30
        ]
        clicked = {view for view, *_ in pairs}
        alone = [(v["id"], v["at"], None) for v in views if v["id"] not in clicked]
        assert joined(case, "inner") == Counter(pairs)
        assert joined(case, "outer") == Counter(pairs + alone)


def close(case: Case) -> None:
    """Send each partition of both streams a record that settles all before it."""
    for stream, field in (("views", "id"), ("clicks", "view")):
        row: dict[str, Any] = {field: -1, "at": moment(100_000)}
        value = json_record(None, **row).value
        case.send(stream, [Record(value, partition=part) for part in (0, 1)])


def joined(case: Case, stream: str) -> Counter[tuple[int, float, float | None]]:
    def seconds(text: str | None) -> float | None:
        return None if text is None else (datetime.fromisoformat(text) - EPOCH).total_seconds()

    rows = [item for item in objects(case.read(stream)) if item["id"] >= 0]
    return Counter(
        (row["id"], seconds(row["seen"]) or 0.0, seconds(row.get("clicked"))) for row in rows
    )


def test_what_repeats_within_a_time_is_left_out(lab: Lab) -> None:
    with lab.case(JOINS) as case:
        rows = [(1, 0.0), (1, 3.0), (2, 4.0), (1, 5.0)]
        case.send("clicks", clicks_of(rows))
        case.drain("first")
        case.send("clicks", clicks_of([(1, 6.0), (2, 7.0), (3, 8.0)]))
        case.drain("first")
        found = [(item["view"], item["at"]) for item in objects(case.read("first"))]
        assert [view for view, _ in found] == [1, 2, 3]
        case.send("clicks", clicks_of([(9, 500.0)]))
        case.drain("first")
        case.send("clicks", clicks_of([(1, 501.0)]))
        case.drain("first")
        views = sorted(item["view"] for item in objects(case.read("first")))
        assert views == [1, 1, 2, 3, 9]


def clicks_of(rows: list[tuple[int, float]]) -> list[Record]:
    records = [json_record(view=view, at=moment(at)) for view, at in rows]
    return [Record(record.value, partition=0) for record in records]


def test_a_table_is_as_it_is_when_a_batch_begins(lab: Lab) -> None:
    with lab.case(JOINS) as case:
        facts = case.examine("named")["named"]
        assert not facts.stateful
        case.send(
            "names", [json_record("1", view=1, name="one"), json_record("2", view=2, name="x")]
        )
        case.send("names", [json_record("2", view=2, name="two"), Record(b"garbage", b"3")])
        case.send("clicks", clicks_of([(1, 0.0), (2, 0.0), (3, 0.0)]))
        # As after partitions were added: an earlier record of the key is elsewhere, further on.
        elsewhere = [json_record("2", view=2, name=f"old {n}") for n in range(9)]
        old = int(time.time() * 1000) - 60_000
        case.send("names", [replace(r, partition=part, time=old) for part in (0, 1)
                            for r in elsewhere])  # fmt: skip
        case.drain("named")
        case.send("names", [Record(None, b"1"), json_record("3", view=3, name="three")])
        case.send("clicks", clicks_of([(1, 1.0), (3, 1.0)]))
        case.drain("named")
        found = [(item["view"], item.get("name")) for item in objects(case.read("named"))]
        assert Counter(found) == Counter(
            [(1, "one"), (2, "two"), (3, None), (1, None), (3, "three")]
        )
        fates = case.fates("named", 5)
        assert (fates.read, fates.malformed) == (5, 0)
