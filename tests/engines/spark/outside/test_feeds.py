"""Recordings, clocks and tables as sources, each by positions that can be read again."""

from __future__ import annotations

import json
import math
import os
import traceback
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millrace.engines.spark.errors import run_failure
from millrace.engines.spark.outside.feed import Ends, Feed, SourceFailed, ended
from millrace.engines.spark.outside.feeds import Description, feed_of
from millrace.engines.spark.outside.numbering import Numbering, gone
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


def test_a_recording_that_became_shorter_is_told(tmp_path: Path) -> None:
    path = recording(tmp_path / "r.jsonl", [0, 0, 0])
    feed = replay(path, 1)
    start = feed.begin()
    end = feed.latest(start)
    os.truncate(path, 10)
    with pytest.raises(SourceFailed, match="emptied, before all of it was read"):
        taken(feed, start, end)


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


def test_a_table_that_is_not_whole_yet_waits(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    pq.write_table(pa.table({"n": [1, 2]}), whole)
    data = whole.read_bytes()
    feed = Tables(NAME, Numbering(str(tmp_path / "*.parquet"), tmp_path / "files.json"))
    at = start = feed.begin()
    growing = tmp_path / "a.parquet"
    for size in (0, 3, 4, len(data) // 2, len(data) - 1):
        growing.write_bytes(data[:size])
        assert feed.latest(at) == at
    growing.write_bytes(data)
    assert taken(feed, start, feed.latest(start)) == [(0, {"n": 1}), (1, {"n": 2})]


def test_a_table_that_is_another_by_now_is_told(tmp_path: Path) -> None:
    feed = Tables(NAME, Numbering(str(tmp_path / "*.parquet"), tmp_path / "files.json"))
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "a.parquet")
    start = feed.begin()
    end = feed.latest(start)
    pq.write_table(pa.table({"m": ["x"]}), tmp_path / "a.parquet")
    with pytest.raises(SourceFailed, match="before all of it was read"):
        taken(feed, start, end)


def test_values_are_written_as_spark_reads_them(tmp_path: Path) -> None:
    feed = Tables(NAME, Numbering(str(tmp_path / "*.parquet"), tmp_path / "files.json"))
    numbers = pa.map_(pa.string(), pa.list_(pa.float64()))
    table = pa.table(
        {
            "b": pa.array([b"\xff\x00"], pa.binary()),
            "m": pa.array([[("x", [math.inf]), ("y", [])]], numbers),
            "k": pa.array([[(7, b"a")]], pa.map_(pa.int32(), pa.binary())),
            "s": pa.array([{"d": Decimal("1.50"), "f": -math.inf}]),
            "n": pa.array([math.nan]),
            "t": pa.array([datetime(2026, 1, 2, 3, 4, 5, 6, UTC)]),
            "none": pa.array([None], pa.int32()),
        }
    )  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    start = feed.begin()
    ((_, row),) = taken(feed, start, feed.latest(start))
    assert row == {
        "b": "/wA=",
        "m": {"x": ["Infinity"], "y": []},
        "k": {"7": "YQ=="},
        "s": {"d": "1.50", "f": "-Infinity"},
        "n": "NaN",
        "t": "2026-01-02T03:04:05.000006+00:00",
        "none": None,
    }


def test_a_source_that_is_gone_is_not_tried_again() -> None:
    """Spark tells the name and the text of what a worker raised."""
    said = "".join(traceback.format_exception(gone("/logs/a.log")))
    failure = run_failure("j", f"PythonException: Traceback (most recent call last):\n{said}")
    assert (failure.code, failure.transient) == ("source-failed", False)
    assert failure.message.startswith("job j: /logs/a.log was taken away")
    assert failure.message.endswith("on the job")
