"""Exact windows against an oracle: any records, any cuts of batches, the same results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.engines.spark.exact.aggregates import parsed
from millrace.engines.spark.exact.closing import Windows
from millrace.engines.spark.exact.marking import ABOUT, LETTER, MARK, RESULT, Partition, Shape
from millrace.engines.spark.exact.partials import Layout
from millrace.errors import OperationFailed
from tests.engines.spark.exact import CUTS
from tests.engines.spark.exact.oracle import Rule, Seen, truth

COLUMNS = {
    "rows": "count(*)",
    "n": "count(v)",
    "sum": "sum(v)",
    "mean": "mean(v)",
    "least": "min(v)",
    "most": "max(v)",
}
BUCKETS = 3
#: Nothing here waits: a slow machine may take its time for all the cases.
pytestmark = pytest.mark.timeout(600)


class World:
    """Both parts with their state in plain mappings, batch after batch."""

    def __init__(self, rule: Rule, partitions: int, kind: str, *, keep: bool = False) -> None:
        """Begin with nothing."""
        layout = Layout(parsed("j", COLUMNS), (kind,))
        sources = tuple(range(partitions))
        self.kind = kind
        self.shape = Shape(
            layout, rule.length, rule.slide, rule.gap, rule.lateness, keep, sources, BUCKETS
        )
        self.marks: dict[int, int | None] = dict.fromkeys(sources)
        self.state: list[tuple[dict[int, bytes], dict[int, int]]]
        self.state = [({}, {}) for _ in range(BUCKETS)]
        self.late = 0
        self.positions = dict.fromkeys(sources, 0)

    def batch(self, records: dict[int, Sequence[Seen]]) -> list[Any]:
        """Let a batch pass; return the rows that come out."""
        between: list[Any] = []
        for source, held in records.items():
            if not held:
                continue
            partition = Partition(self.shape, source, self.marks[source])
            between += partition.rows(self._frame(source, held))
            self.marks[source] = partition.mark
        if not between:
            return []
        rows = pd.concat(between, ignore_index=True)
        out: list[Any] = []
        for bucket, part in rows.groupby("bucket"):
            opened, marks = self.state[int(bucket)]
            out += Windows(self.shape, opened, marks, updates=False).rows(part)
        given_ = [row for frame in out for row in frame.to_dict("records")]
        self.late += sum(row["late"] for row in given_ if row["kind"] == MARK)
        return [row for row in given_ if row["kind"] != MARK]

    def _frame(self, source: int, records: Sequence[Seen]) -> Any:
        first = self.positions[source]
        self.positions[source] += len(records)
        zero = 0 if self.kind == "long" else 0.0
        return pd.DataFrame(
            {
                "bad": False,
                "time": [record.time for record in records],
                "key": [record.key for record in records],
                "a0": [zero if r.value is None else r.value for r in records],
                "v0": [record.value is not None for record in records],
                **dict.fromkeys(ABOUT),
                "position": range(first, first + len(records)),
                "partition": source,
            }
        ).astype({"a0": "int64" if self.kind == "long" else "float64"})


RULES = {
    "tumbling": Rule(10, 10, lateness=4),
    "length 3, slide 2": Rule(3, 2, lateness=1),
    "sliding": Rule(30, 10),
    "with holes": Rule(4, 10, lateness=7),
    "session": Rule(gap=5, lateness=3),
}
TIMES = st.integers(-20, 80)
DOUBLES = st.floats(-1e9, 1e9, allow_nan=False) | st.sampled_from([1e300, -1e300, 5e-324, 0.1])


def records(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[Seen]]]:
    seen = st.builds(Seen, TIMES, st.sampled_from("abc"), st.none() | values)
    return st.lists(st.lists(seen, max_size=25), min_size=1, max_size=3)


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=CUTS)
@given(data=st.data())
def test_results_are_those_of_the_oracle_wherever_batches_end(name: str, data: Any) -> None:
    kind = data.draw(st.sampled_from(["long", "double"]))
    values = st.integers(-(2**40), 2**40) if kind == "long" else DOUBLES
    partitions = data.draw(records(values))
    wanted = truth(partitions, RULES[name])
    world = World(RULES[name], len(partitions), kind)
    results: dict[tuple[int, int, str], tuple[object, ...]] = {}
    at = [0] * len(partitions)
    while any(place < len(held) for place, held in zip(at, partitions, strict=True)):
        ends = [
            data.draw(st.integers(place, len(held)))
            for place, held in zip(at, partitions, strict=True)
        ]
        batch = {n: partitions[n][at[n] : ends[n]] for n in range(len(partitions))}
        for row in world.batch(batch):
            assert row["kind"] == RESULT
            span = (row["begin"], row["end"], row["key"])
            assert span not in results, "a window closes once"
            results[span] = tuple(row[f"r{at}"] for at in range(len(COLUMNS)))
        at = ends
    assert results == wanted.closed
    assert world.late == sum(map(len, wanted.late.values()))


def test_late_records_are_kept_where_that_is_asked_for() -> None:
    world = World(Rule(10, 10), 1, "long", keep=True)
    rows = world.batch({0: [Seen(5, "a", 1), Seen(25, "a", 2), Seen(24, "a", 3), Seen(25, "b", 4)]})
    assert [row["position"] for row in rows if row["kind"] == LETTER] == [2]
    assert [row["r2"] for row in rows if row["kind"] == RESULT] == [1]


def test_a_silent_partition_holds_windows_back() -> None:
    world = World(Rule(10, 10), 2, "long")
    assert world.batch({0: [Seen(5, "a", 1), Seen(99, "a", 2)]}) == []
    assert [row["r2"] for row in world.batch({1: [Seen(12, "a", 4)]})] == [1]


@pytest.mark.parametrize("said", ["median(v)", "count(DISTINCT v)", "sum()", "v", "max(v) + 1"])
def test_what_has_no_parts_is_refused(said: str) -> None:
    with pytest.raises(OperationFailed, match="in parts") as told:
        parsed("j", {"x": said})
    assert "leave out `late`" in told.value.hint
