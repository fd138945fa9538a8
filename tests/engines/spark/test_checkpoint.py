"""How far a query is, read from folders as Spark writes them."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

import pytest

from millrace.engines.spark.checkpoint import (
    Committed,
    committed,
    name_query,
    read_start,
    tidy,
    write_start,
)
from millrace.engines.spark.source import starting_offsets
from millrace.model.stream import Stream


def made(place: Path, *, sources: list[dict[str, dict[str, int]]] | None = None) -> Path:
    """Make the folder of a query that was started, with the first positions of its sources."""
    (place / "metadata").write_text('{"id":"x"}')
    for name in ("commits", "offsets"):
        (place / name).mkdir()
    for number, positions in enumerate(sources or []):
        folder = place / "sources" / str(number)
        folder.mkdir(parents=True)
        (folder / "0").write_bytes(b"\x00v1\n" + json.dumps(positions).encode())
    return place


def batch(
    place: Path, number: int, *sources: dict[str, dict[str, int]] | None, commit: bool = True
) -> None:
    lines = [json.dumps(item) if item is not None else "-" for item in sources]
    text = "\n".join(["v1", '{"batchWatermarkMs":0,"conf":{}}', *lines])
    (place / "offsets" / str(number)).write_text(text)
    (place / "offsets" / f".{number}.crc").write_bytes(b"crc")
    if commit:
        (place / "commits" / str(number)).write_text("v1\n{}")
        (place / "commits" / f".{number}.crc").write_bytes(b"crc")
        os.utime(place / "commits" / str(number), (1000 + number, 1000 + number))


def test_no_query_was_ever_there(tmp_path: Path) -> None:
    assert committed(tmp_path / "nowhere") == Committed()
    assert committed(tmp_path) == Committed(-1, None, {}, {})


def test_the_first_batch_is_not_committed(tmp_path: Path) -> None:
    place = made(tmp_path, sources=[{"a": {"0": 5, "1": 7}}, {"b": {"0": 1}}])
    batch(place, 0, {"a": {"0": 9, "1": 9}}, {"b": {"0": 9}}, commit=False)
    os.utime(place / "metadata", (77, 77))
    first = {"a": {0: 5, 1: 7}, "b": {0: 1}}
    assert committed(place) == Committed(-1, 77_000, first, first)


def test_started_and_nothing_more(tmp_path: Path) -> None:
    found = committed(made(tmp_path))
    assert (found.batch, found.positions, found.first) == (-1, {}, {})
    assert found.at is not None


def test_a_query_keeps_the_name_that_it_got_first(tmp_path: Path) -> None:
    name_query(tmp_path)
    first = (tmp_path / "metadata").read_text()
    assert str(uuid.UUID(json.loads(first)["id"])) in first
    name_query(tmp_path)
    assert (tmp_path / "metadata").read_text() == first
    assert [path.name for path in tmp_path.iterdir()] == ["metadata"]


@pytest.mark.parametrize("commit", [True, False])
def test_a_query_that_lost_its_name_gets_no_other(tmp_path: Path, commit: bool) -> None:
    """Spark says then that the checkpoint is broken."""
    place = made(tmp_path)
    batch(place, 0, {"a": {"0": 1}}, commit=commit)
    (place / "metadata").unlink()
    name_query(place)
    assert not (place / "metadata").exists()


def test_the_last_commit_counts_and_not_what_is_open(tmp_path: Path) -> None:
    place = made(tmp_path, sources=[{"a": {"0": 0}}])
    batch(place, 0, {"a": {"0": 3}})
    batch(place, 1, {"a": {"0": 8}})
    batch(place, 2, {"a": {"0": 20}}, commit=False)
    assert committed(place) == Committed(1, 1_001_000, {"a": {0: 8}}, {"a": {0: 0}})


def test_old_batches_may_be_gone(tmp_path: Path) -> None:
    """Spark removes old files; numbers are compared as numbers."""
    place = made(tmp_path, sources=[{"a": {"0": 0}}])
    for number in (8, 9, 10):
        batch(place, number, {"a": {"0": number * 10}})
    (place / "offsets" / "8").unlink()
    (place / "commits" / "9").unlink()
    found = committed(place)
    assert (found.batch, found.positions) == (10, {"a": {0: 100}})


def test_a_source_without_a_position_is_left_out(tmp_path: Path) -> None:
    place = made(tmp_path, sources=[{"a": {"0": 0}}])
    batch(place, 0, None, {"a": {"0": 4}})
    assert committed(place).positions == {"a": {0: 4}}


def test_a_commit_whose_offsets_are_gone_is_an_error(tmp_path: Path) -> None:
    place = made(tmp_path)
    batch(place, 0, {"a": {"0": 3}})
    (place / "offsets" / "0").unlink()
    with pytest.raises(FileNotFoundError):
        committed(place)


def test_what_a_killed_writer_began_is_removed(tmp_path: Path) -> None:
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0").touch()
        (tmp_path / folder / ".0.crc").touch()
        (tmp_path / folder / ".1.75b6.tmp").touch()
        (tmp_path / folder / "..1.75b6.tmp.crc").touch()
    tidy(tmp_path)
    for folder in ("offsets", "commits"):
        assert sorted(path.name for path in (tmp_path / folder).iterdir()) == [".0.crc", "0"]


def test_a_checkpoint_that_is_not_there_is_tidy(tmp_path: Path) -> None:
    tidy(tmp_path / "none")


def test_a_job_in_a_new_folder_is_where_its_predecessor_was(tmp_path: Path) -> None:
    before = Committed(7, 5_000, {"a": {0: 3, 1: 4}}, {"a": {0: 0, 1: 0}})
    place = tmp_path / "jobs" / "2"
    assert read_start(place) == {}
    write_start(place, before)
    assert read_start(place) == {"a": {0: 3, 1: 4}}
    start = Committed(-1, 5_000, before.positions, before.positions)
    assert committed(place / "checkpoint") == start


def test_a_new_folder_remembers_its_predecessor_until_its_first_commit(tmp_path: Path) -> None:
    """What that one wrote since its last commit must be found however often this one is tried."""
    write_start(tmp_path, Committed(7, 5_000, {"a": {0: 3}}))
    (tmp_path / "checkpoint").mkdir()
    place = made(tmp_path / "checkpoint", sources=[{"a": {"0": 3, "1": 0}}])
    first = {"a": {0: 3, 1: 0}}
    assert committed(place) == Committed(-1, 5_000, first, first)
    batch(place, 0, {"a": {"0": 9, "1": 1}})
    assert committed(place) == Committed(0, 1_000_000, {"a": {0: 9, 1: 1}}, first)


def test_where_to_begin_names_every_partition() -> None:
    found = starting_offsets(Stream(name="cars", topic="t", partitions=3), {1: 5})
    assert json.loads(found) == {"t": {"0": -2, "1": 5, "2": -2}}
