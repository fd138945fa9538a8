"""State per key: whatever the cuts of batches, a key sees the same."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.engines.spark.keyed.bucket import Bucket, Now, Program, Stores, Turn, moment
from millrace.engines.spark.keyed.kept import Kept, fields_of, misfits, read, written
from millrace.engines.spark.keyed.pages import Pages

SECOND = 1_000_000
#: Nothing here waits: a slow machine may take its time for all the cases.
pytestmark = pytest.mark.timeout(600)


class Journey:
    """Counts a key's records, and tells when it was silent for 3 s."""

    count: int = 0
    first: datetime | None = None
    seen: list[int]

    def __init__(self) -> None:
        """Begin with nothing."""
        self.seen = []

    def on_record(self, record: dict[str, Any], now: Now) -> Any:
        self.first = self.first or now.time
        self.count += 1
        self.seen.append(record["n"])
        if record["n"] % 7 == 6:
            now.forget()
            return ("forgot", dict(now.key), self.count)
        if record["n"] % 5 == 4:
            self.seen.append(-1)
            raise ValueError(record["n"])
        now.cancel_timers()
        now.set_timer(timedelta(seconds=3))
        return ("record", record["n"], self.count, list(self.seen), self.first)

    def on_timer(self, now: Now) -> Any:
        self.count += 100
        if self.count > 300:
            now.forget()
        return ("timer", now.time, self.count)


@dataclass
class World:
    """A bucket whose state is in plain mappings."""

    program: Program
    pages: dict[int, bytes] = field(default_factory=dict)
    due: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    least: dict[int, int] = field(default_factory=dict)
    marks: dict[int, int] = field(default_factory=dict)

    def batch(self, parts: dict[int, list[tuple[int, str, int]]]) -> dict[str, list[Any]]:
        """Let records (time, key, n) of each source pass; return what each key gave."""
        pages = Pages(self.pages)
        bucket = Bucket(self.program, Stores(pages, self.due, self.least), orjson.loads)
        out: dict[str, list[Any]] = defaultdict(list)
        for source, records in parts.items():
            for time, name, number in records:
                key = orjson.dumps({"car": name}).decode()
                before = self.marks.get(source, time)
                out[name] += [call() for _, call in bucket.timers(key, before)]
                try:
                    out[name].append(bucket.take(Turn(key, source, time, before, {"n": number})))
                except ValueError as error:
                    out[name].append(("failed", str(error)))
                self.marks[source] = max(before, time)
        for key, mark in bucket.overdue(self.marks):
            out[orjson.loads(key)["car"]] += [call() for _, call in bucket.timers(key, mark)]
        bucket.keep()
        pages.flush()
        return out


RECORDS = st.lists(
    st.tuples(
        st.integers(0, 120).map(lambda s: s * SECOND // 4),
        st.sampled_from("ab"),
        st.integers(0, 20),
    ),
    max_size=25,
)


@pytest.mark.parametrize("expires", [None, 4 * SECOND])
@given(one=RECORDS, other=RECORDS, data=st.data())
def test_a_key_sees_the_same_however_batches_are_cut(
    expires: int | None, one: Any, other: Any, data: Any
) -> None:
    """Keys of the second source have other names: all records of a key are in one partition."""
    sources = {0: one, 1: [(time, name.upper(), number) for time, name, number in other]}
    program = Program(Journey, fields_of(Journey), expires)
    whole = World(program).batch(sources)
    found: dict[str, list[Any]] = defaultdict(list)
    cut, at = World(program), {0: 0, 1: 0}
    while any(at[source] < len(records) for source, records in sources.items()):
        ends = {s: data.draw(st.integers(at[s], len(sources[s]))) for s in sources}
        for key, given_ in cut.batch({s: sources[s][at[s] : ends[s]] for s in sources}).items():
            found[key] += given_
        at = ends
    assert {key: value for key, value in found.items() if value} == {
        key: value for key, value in whole.items() if value
    }


def test_a_function_keeps_a_dict() -> None:
    def count(state: dict[str, int], record: dict[str, Any]) -> int:
        state["n"] = state.get("n", 0) + record["n"]
        return state["n"]

    world = World(Program(count, fields_of(count)))
    assert world.batch({0: [(0, "a", 1), (1, "b", 5), (2, "a", 2)]}) == {"a": [1, 3], "b": [5]}
    assert world.batch({0: [(3, "a", 4)]}) == {"a": [7]}


def test_a_failure_leaves_the_state_as_it_was() -> None:
    world = World(Program(Journey, fields_of(Journey)))
    given_ = world.batch({0: [(0, "a", 1), (1, "a", 4), (2, "a", 2)]})["a"]
    assert [item[0] for item in given_] == ["record", "failed", "record"]
    assert given_[2][2:4] == (2, [1, 2])


def test_later_versions_read_what_earlier_ones_wrote() -> None:
    class Before:
        count: int = 0
        gone: str = "x"

    class After:
        count: float = 0.0
        added: str = "new"

    old = Before()
    old.count, old.gone = 3, "y"
    data = written(Kept(old, [5], 2, 7))
    fields = fields_of(After)
    assert fields is not None
    assert misfits(fields_of(Before).types, fields) == []  # type: ignore[union-attr]
    kept = read(data, After, fields)
    assert (kept.state.count, kept.state.added, kept.timers) == (3, "new", [5])
    assert not hasattr(kept.state, "gone")


def test_state_that_does_not_fit_is_told() -> None:
    class Wrong:
        count: str = ""
        more: int

    fields = fields_of(Wrong)
    assert fields is not None
    assert misfits({"count": "int"}, fields) == [
        "count was int and is str now",
        "more is new and has no default",
    ]


def test_times_and_bytes_are_kept() -> None:
    state = {"at": moment(5), "data": b"\x00\xff", "deep": [{"at": moment(6)}]}
    assert read(written(Kept(state, [], 0, 0)), dict, None).state == state
    with pytest.raises(TypeError, match="can't be kept"):
        written(Kept({"x": object()}, [], 0, 0))
