"""Spools and logs as feeds: read by positions, again if need be, and forgotten when done."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.engines.spark.outside import spooled
from millrace.engines.spark.outside.feed import Forgetful, SourceFailed
from millrace.engines.spark.outside.spooled import Logged, Spooled
from millrace.ports import Record
from millrace.spool import SpoolWriter
from millrace.testing.faulty_log import MemoryLog


def records(numbers: range) -> list[Record]:
    return [Record(b"%d" % n, b"k%d" % n, (("h", b"v"),), time=1000 + n) for n in numbers]


@pytest.fixture
def writer(tmp_path: Path) -> SpoolWriter:
    return SpoolWriter(tmp_path / "raw")


def test_what_was_received_is_read_by_positions_and_again(
    writer: SpoolWriter, tmp_path: Path
) -> None:
    feed = Spooled("t", tmp_path / "raw", {})
    assert feed.begin() == {"t": {"0": 0}}
    assert feed.latest(feed.begin()) == {"t": {"0": 0}}
    writer.append(records(range(5)))
    assert feed.latest(feed.begin()) == {"t": {"0": 0}}, "it is not on the disk yet"
    writer.commit()
    end = feed.latest(feed.begin())
    assert end == {"t": {"0": 5}}
    for _ in range(2):
        (part,) = feed.parts({"t": {"0": 2}}, end)
        found = list(feed.records(part))
        assert [(one.position, one.value, one.time) for one in found] == [
            (n, b"%d" % n, (1000 + n) * 1000) for n in (2, 3, 4)
        ]
        assert found[0].key == b"k2"
        assert found[0].headers == (("h", b"v"),)
    assert feed.parts(end, end) == []


def test_a_frozen_feed_sees_nothing_new(writer: SpoolWriter, tmp_path: Path) -> None:
    writer.append(records(range(3)))
    writer.commit()
    feed = Spooled("t", tmp_path / "raw", {"0": 1})
    assert feed.begin() == {"t": {"0": 1}}
    feed.freeze()
    writer.append(records(range(3)))
    writer.commit()
    assert feed.latest(feed.begin()) == {"t": {"0": 3}}


def test_a_batch_has_a_limit(
    writer: SpoolWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooled, "MOST_ROWS", 2)
    writer.append(records(range(5)))
    writer.commit()
    feed = Spooled("t", tmp_path / "raw", {})
    assert feed.latest({"t": {"0": 1}}) == {"t": {"0": 3}}


def test_what_is_committed_is_told_to_the_receiver(writer: SpoolWriter, tmp_path: Path) -> None:
    writer.append(records(range(5)))
    writer.commit()
    feed = Spooled("t", tmp_path / "raw", {})
    assert isinstance(feed, Forgetful)
    feed.committed({"t": {"0": 5}})
    assert (tmp_path / "raw" / "read").read_text() == "5"
    writer.trim(5)
    (part,) = feed.parts({"t": {"0": 0}}, {"t": {"0": 5}})
    with pytest.raises(SourceFailed):
        list(feed.records(part))


def test_a_log_is_read_by_its_partitions() -> None:
    log = MemoryLog({})
    log.grow("t", 2)
    log.write("t", [Record(b"%d" % n, partition=n % 2) for n in range(6)])
    feed = Logged("t", log, {"1": 2})
    start, end = feed.begin(), feed.latest(feed.begin())
    assert (start, end) == ({"t": {"0": 0, "1": 2}}, {"t": {"0": 3, "1": 3}})
    found = {p.number: [e.value for e in feed.records(p)] for p in feed.parts(start, end)}
    assert found == {0: [b"0", b"2", b"4"], 1: [b"5"]}
