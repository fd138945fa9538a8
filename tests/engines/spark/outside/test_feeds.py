"""Recordings, clocks, tables and databases as sources, each by positions that can be read again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millrace.engines.spark.outside.database import opened
from millrace.engines.spark.outside.feed import Ends, Feed, ended
from millrace.engines.spark.outside.feeds import Description, feed_of
from millrace.engines.spark.outside.numbering import Numbering
from millrace.engines.spark.outside.rows import Rows
from millrace.engines.spark.outside.tables import Tables
from millrace.engines.spark.outside.ticks import Ticks
from millrace.errors import OperationFailed

NAME = "@job"


def taken(feed: Feed, start: Ends, end: Ends) -> list[tuple[int, object]]:
    parts = feed.parts(start, end)
    return [(e.position, json.loads(e.value)) for part in parts for e in feed.records(part)]


def replay(path: Path, speed: float) -> Feed:
    schema = {"n": "int", "at": "timestamp"}
    told = Description(
        NAME, "replay", path=str(path), speed=speed, by="at", format="json", schema=schema
    )
    return feed_of(told.text())


def recording(path: Path, seconds: list[float | None]) -> Path:
    times = [None if s is None else f"2024-05-01T00:00:{s:09.6f}Z" for s in seconds]
    path.write_text("".join(json.dumps({"n": n, "at": t}) + "\n" for n, t in enumerate(times)))
    return path


def test_a_recording_comes_at_its_own_pace_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("millrace.engines.spark.outside.replay.time.monotonic", lambda: clock[0])
    feed = replay(recording(tmp_path / "r.jsonl", [0, 1, None, 0.5, 10]), 10)
    start = feed.begin()
    first = feed.latest(start)
    assert taken(feed, start, first) == [(0, {"n": 0, "at": "2024-05-01T00:00:00.000000Z"})]
    assert feed.latest(first) == first
    clock[0] += 0.125
    second = feed.latest(first)
    assert [position for position, _ in taken(feed, first, second)] == [1, 2, 3]
    assert not ended(second, NAME)
    again = replay(tmp_path / "r.jsonl", 10)  # after a stop of any length: no gap, no hurry
    third = again.latest(second)
    assert [position for position, _ in taken(again, second, third)] == [4]
    assert ended(third, NAME)
    assert again.latest(third) == third


def test_a_frozen_recording_comes_at_once(tmp_path: Path) -> None:
    feed = replay(recording(tmp_path / "r.jsonl", [0, 30, 59]), 1)
    feed.freeze()
    end = feed.latest(feed.begin())
    assert len(taken(feed, feed.begin(), end)) == 3
    assert ended(end, NAME)


def test_a_recording_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed, match="there is no file"):
        replay(tmp_path / "none.jsonl", 1)


def test_a_clock_gives_one_tick_for_many_that_nobody_heard() -> None:
    clock = [0.0]
    feed = Ticks(NAME, 10, lambda: clock[0])
    positions, at = [], feed.begin()
    for now in (0, 5, 10, 35, 39, 40):
        clock[0] = now
        end = feed.latest(at)
        positions.append([position for position, _ in taken(feed, at, end)])
        at = end
    assert positions == [[0], [], [1], [2], [], [3]]


def test_a_tick_that_is_read_again_is_the_same() -> None:
    feed = Ticks(NAME, 10)
    start = feed.begin()
    end = feed.latest(start)
    ((position, tick),) = taken(feed, start, end)
    assert taken(Ticks(NAME, 10), start, end) == [(position, tick)]
    assert isinstance(tick, dict)
    assert tick["tick"] == 0


def test_tables_come_as_wholes(tmp_path: Path) -> None:
    feed = Tables(NAME, Numbering(str(tmp_path / "*.parquet"), tmp_path / "files.json"))
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "a.parquet")
    start = feed.begin()
    first = feed.latest(start)
    assert taken(feed, start, first) == [(0, {"n": 1}), (1, {"n": 2})]
    pq.write_table(pa.table({"n": [3]}), tmp_path / "b.parquet")
    second = feed.latest(first)
    assert taken(feed, first, second) == [(0, {"n": 3})]
    assert feed.latest(second) == second


@pytest.fixture
def cars(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "cars.db")) as database:
        database.execute("CREATE TABLE cars (id INTEGER PRIMARY KEY, plate TEXT, old INT)")
        yield database


def rows(place: Path, settles: float = 0.0) -> Rows:
    query = "SELECT id, plate FROM cars WHERE old = 0"
    return Rows(NAME, partial(opened, f"sqlite:{place}/cars.db", None, query, "id"), settles)


def test_a_query_gives_what_is_new(tmp_path: Path, cars: sqlite3.Connection) -> None:
    feed = rows(tmp_path)
    start = feed.begin()
    assert feed.latest(start) == start
    with cars:
        cars.execute("INSERT INTO cars VALUES (-3, 'a', 0), (7, 'b', 1), (9, 'c', 0)")
    first = feed.latest(start)
    assert taken(feed, start, first) == [
        (0, {"id": -3, "plate": "a"}),
        (1, {"id": 9, "plate": "c"}),
    ]
    with cars:
        cars.execute("INSERT INTO cars VALUES (20, 'd', 0)")
    second = feed.latest(first)
    assert taken(feed, first, second) == [(2, {"id": 20, "plate": "d"})]
    assert feed.latest(second) == second


def test_a_number_counts_when_it_is_settled(
    tmp_path: Path, cars: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that is written after one with a greater number is not left out."""
    clock = [0.0]
    monkeypatch.setattr("millrace.engines.spark.outside.rows.time.monotonic", lambda: clock[0])
    feed = rows(tmp_path, settles=2)
    start = feed.begin()
    with cars:
        cars.execute("INSERT INTO cars VALUES (2, 'b', 0)")
    assert feed.latest(start) == start
    clock[0] = 1.0
    with cars:
        cars.execute("INSERT INTO cars VALUES (1, 'a', 0)")
    assert feed.latest(start) == start
    clock[0] = 2.0
    end = feed.latest(start)
    assert [position for position, _ in taken(feed, start, end)] == [0, 1]
    feed.freeze()
    assert feed.latest(end) == end


@pytest.mark.parametrize(
    ("address", "message"), [("sqlite:none.db", "no database"), ("oracle:x", "'oracle' is no")]
)
def test_databases_that_are_not(address: str, message: str) -> None:
    with pytest.raises(OperationFailed, match=message):
        opened(address, None, "SELECT 1", "id")
