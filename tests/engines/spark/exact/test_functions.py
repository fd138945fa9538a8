"""Functions over windows: all records in their order, or totals that records are taken out of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.engines.spark.exact.aggregates import parsed
from millrace.engines.spark.exact.closing import Windows
from millrace.engines.spark.exact.function import FunctionTask
from millrace.engines.spark.exact.held import Held, packed, unpacked
from millrace.engines.spark.exact.marking import ABOUT, LETTER, MARK, RESULT, Partition, Shape
from millrace.engines.spark.exact.partials import Layout
from millrace.engines.spark.map_worker import MapTask
from millrace.model.policy import ErrorPolicy
from millrace.model.stream import Format
from tests.engines.spark.exact import CUTS
from tests.engines.spark.exact.oracle import Rule, Seen, truth

BUCKETS = 2
#: Nothing here waits: a slow machine may take its time for all the cases.
pytestmark = pytest.mark.timeout(600)


def everything(records: list[dict[str, Any]], window: Any) -> dict[str, Any]:
    return {"start": window.start.timestamp(), "key": window.key, "v": [r["v"] for r in records]}


def fails(records: list[dict[str, Any]]) -> None:
    raise ValueError(f"{len(records)} are too many")


def add(total: dict[str, int] | None, record: dict[str, int]) -> dict[str, int]:
    total = total or {"n": 0, "sum": 0, "steps": 0}
    steps = total["steps"] + 1
    return {"n": total["n"] + 1, "sum": total["sum"] + record["v"], "steps": steps}


def take_out(total: dict[str, int], record: dict[str, int]) -> dict[str, int]:
    steps = total["steps"] + 1
    return {"n": total["n"] - 1, "sum": total["sum"] - record["v"], "steps": steps}


class World:
    """Both parts with their state in plain mappings, batch after batch."""

    def __init__(self, rule: Rule, partitions: int, function: Any, inverse: Any = None) -> None:
        """Begin with nothing."""
        sources = tuple(range(partitions))
        layout = Layout(parsed("j", {}), (), holds=True)
        self.shape = Shape(
            layout, rule.length, rule.slide, rule.gap, rule.lateness,
            keep=False, sources=sources, buckets=BUCKETS,
        )  # fmt: skip
        columns = {"v": "int"}
        outputs = {"out": (0, Format.JSON, None, (), 10_000)}
        task = MapTask(
            function, "", {}, ((Format.JSON, columns),) * partitions, outputs, ErrorPolicy.SKIP, 0
        )
        self.task = FunctionTask(task, inverse, rule.slide, rule.length)
        self.marks: dict[int, int | None] = dict.fromkeys(sources)
        self.state: list[tuple[dict[int, bytes], dict[int, int], dict[int, bytes]]]
        self.state = [({}, {}, {}) for _ in range(BUCKETS)]
        self.positions = dict.fromkeys(sources, 0)

    def batch(self, records: Mapping[int, Sequence[Seen]]) -> list[Any]:
        """Let a batch pass; return the rows that come out."""
        between: list[Any] = []
        for source, held in records.items():
            if held:
                partition = Partition(self.shape, source, self.marks[source])
                between += partition.rows(self._frame(source, held))
                self.marks[source] = partition.mark
        if not between:
            return []
        out: list[Any] = []
        for bucket, part in pd.concat(between, ignore_index=True).groupby("bucket"):
            opened, marks, totals = self.state[int(bucket)]
            finish = self.task.work(totals).results
            windows = Windows(self.shape, opened, marks, updates=False, finish=finish)
            out += windows.rows(part)
        rows = [row for frame in out for row in frame.to_dict("records")]
        return [row for row in rows if row["kind"] != MARK]

    def _frame(self, source: int, records: Sequence[Seen]) -> Any:
        first = self.positions[source]
        self.positions[source] += len(records)
        return pd.DataFrame(
            {
                **dict.fromkeys(ABOUT),
                "bad": False,
                "time": [record.time for record in records],
                "key": [json.dumps({"k": record.key}) for record in records],
                "payload": [json.dumps({"v": record.value}).encode() for record in records],
                "source": source,
                "position": range(first, first + len(records)),
            }
        )


SEEN = st.builds(Seen, st.integers(0, 60), st.sampled_from("ab"), st.integers(-5, 5))
PARTITIONS = st.lists(st.lists(SEEN, max_size=20), min_size=1, max_size=2)


def run(world: World, partitions: list[list[Seen]], data: Any) -> dict[Any, Any]:
    """Let all records pass, cut anywhere; return the results by window."""
    found: dict[Any, Any] = {}
    at = [0] * len(partitions)
    while any(place < len(held) for place, held in zip(at, partitions, strict=True)):
        ends = [
            data.draw(st.integers(place, len(held)))
            for place, held in zip(at, partitions, strict=True)
        ]
        for row in world.batch({n: partitions[n][at[n] : ends[n]] for n in range(len(at))}):
            assert row["kind"] == RESULT
            span = (row["begin"], row["end"], json.loads(row["key"])["k"])
            assert span not in found, "a window closes once"
            found[span] = json.loads(row["value"])
        at = ends
    return found


@pytest.mark.parametrize("rule", [Rule(10, 10, lateness=4), Rule(3, 2, lateness=1), Rule(gap=5)])
@settings(max_examples=CUTS)
@given(data=st.data())
def test_a_function_gets_all_records_in_their_order(rule: Rule, data: Any) -> None:
    partitions = data.draw(PARTITIONS)
    wanted = truth(partitions, rule)
    found = run(World(rule, len(partitions), everything), partitions, data)
    assert {span: (len(r["v"]), sum(r["v"])) for span, r in found.items()} == {
        span: (rows, total) for span, (rows, _, total, *_) in wanted.closed.items()
    }
    again = run(World(rule, len(partitions), everything), partitions, data)
    assert again == found, "the order of records does not depend on where batches end"
    for (begin, _, key), result in found.items():
        assert (result["start"], result["key"]) == (begin / 1e6, {"k": key})


@settings(max_examples=CUTS)
@given(data=st.data())
def test_totals_are_those_of_the_oracle(data: Any) -> None:
    rule = Rule(30, 10)
    partitions = data.draw(PARTITIONS)
    wanted = truth(partitions, rule)
    found = run(World(rule, len(partitions), add, take_out), partitions, data)
    assert {span: (r["n"], r["sum"]) for span, r in found.items()} == {
        span: (rows, total) for span, (rows, _, total, *_) in wanted.closed.items()
    }


def test_records_that_stay_are_not_added_again() -> None:
    rule = Rule(30, 10)
    world = World(rule, 1, add, take_out)
    records = [Seen(time, "a", 1) for time in range(100)]
    rows = world.batch({0: records})
    totals = [json.loads(row["value"]) for row in rows]
    assert [total["n"] for total in totals] == [10, 20, 30, 30, 30, 30, 30, 30, 30]
    more = [two["steps"] - one["steps"] for one, two in pairwise(totals)]
    assert more == [10, 10, *[20] * 6], "ten leave and ten come"


def test_what_no_later_window_needs_is_forgotten() -> None:
    world = World(Rule(30, 10), 1, add, take_out)
    for time in range(0, 2000, 40):
        world.batch({0: [Seen(time, f"k{time}", 1)]})
    assert sum(len(totals) for _, _, totals in world.state) <= BUCKETS


def test_totals_of_other_code_are_not_gone_on_with() -> None:
    def hundredfold(total: Any, record: Any = None) -> dict[str, int]:
        return add(total, {"v": record["v"] * 100})

    def back(total: dict[str, int], record: dict[str, int]) -> dict[str, int]:
        return take_out(total, {"v": record["v"] * 100})

    world = World(Rule(30, 10), 1, add, take_out)
    world.batch({0: [Seen(time, "a", 1) for time in range(50)]})
    code = replace(world.task.map, function=hundredfold)
    world.task = replace(world.task, map=code, inverse=back, version="another")
    rows = world.batch({0: [Seen(time, "a", 1) for time in range(50, 100)]})
    assert {json.loads(row["value"])["sum"] for row in rows} == {3000}


def test_a_record_without_a_value_is_held() -> None:
    records = [Held(1, 0, 0, None), Held(1, 0, 1, b""), Held(0, 0, 2, b"x")]
    assert unpacked(packed(records)) == [records[2], records[0], records[1]]


def test_a_function_that_fails_leaves_a_letter() -> None:
    world = World(Rule(10, 10), 1, fails)
    (row,) = world.batch({0: [Seen(1, "a", 7), Seen(2, "a", 8), Seen(30, "a", 9)]})
    assert (row["kind"], row["position"], row["payload"]) == (LETTER, 1, b'{"v": 8}')
    assert row["cause"] == "ValueError: 2 are too many"
