"""Files that grow, are turned, emptied and read in pieces: every whole line once, in its order."""

from __future__ import annotations

import cProfile
import json
import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.engines.spark.outside import lines as lines_module
from millrace.engines.spark.outside import numbering
from millrace.engines.spark.outside.birth import born
from millrace.engines.spark.outside.feed import Ends, Entry, SourceFailed
from millrace.engines.spark.outside.lines import Lines
from millrace.engines.spark.outside.numbering import Numbering

NAME = "@job"


def feed(place: Path, pattern: str = "in/*", *, whole: bool = False, lossy: bool = False) -> Lines:
    (place / "in").mkdir(exist_ok=True)
    files = Numbering(str(place / pattern), place / "files.json")
    return Lines(NAME, files, whole=whole, lossy=lossy)


def step(lines: Lines, start: Ends) -> tuple[list[Entry], Ends]:
    end = lines.latest(start)
    return [entry for part in lines.parts(start, end) for entry in lines.records(part)], end


def values(entries: list[Entry]) -> list[bytes]:
    return [entry.value for entry in entries]


def test_lines_come_when_they_are_whole(tmp_path: Path) -> None:
    lines = feed(tmp_path)
    log = tmp_path / "in" / "a.log"
    log.write_bytes(b"one\ntw")
    found, at = step(lines, lines.begin())
    assert [(e.position, e.value) for e in found] == [(0, b"one")]
    assert lines.latest(at) == at
    with log.open("ab") as file:
        file.write(b"o\r\nthree\n")
    found, at = step(lines, at)
    assert [(e.position, e.value) for e in found] == [(1, b"two"), (2, b"three")]


def test_a_complete_file_needs_no_last_end(tmp_path: Path) -> None:
    lines = feed(tmp_path, whole=True)
    (tmp_path / "in" / "a.log").write_bytes(b"one\ntwo")
    found, at = step(lines, lines.begin())
    assert values(found) == [b"one", b"two"]
    assert lines.latest(at) == at


def test_a_log_that_is_turned_is_read_on_under_its_new_name(tmp_path: Path) -> None:
    lines = feed(tmp_path)
    log = tmp_path / "in" / "a.log"
    log.write_bytes(b"one\n")
    _, at = step(lines, lines.begin())
    with log.open("ab") as file:
        file.write(b"two\n")
    log.rename(tmp_path / "in" / "a.log.1")
    log.write_bytes(b"three\n")
    found, at = step(feed(tmp_path), at)  # a new process knows the files, too
    assert sorted(values(found)) == [b"three", b"two"]
    assert lines.latest(at) == at


@pytest.mark.parametrize("again", [b"x\n", b"head\nnew\n"])
def test_a_file_that_was_emptied_is_a_new_one(tmp_path: Path, again: bytes) -> None:
    lines = feed(tmp_path)
    log = tmp_path / "in" / "a.log"
    log.write_bytes(b"head\nmany\nlines\n")
    _, at = step(lines, lines.begin())
    log.write_bytes(again)
    found, _ = step(lines, at)
    assert values(found) == again.split()


def test_a_file_in_the_place_of_a_deleted_one_is_read_whole(tmp_path: Path) -> None:
    lines = feed(tmp_path)
    log = tmp_path / "in" / "a.log"
    log.write_bytes(b"one\n")
    _, at = step(lines, lines.begin())
    log.unlink()
    (tmp_path / "in" / "b.log").write_bytes(b"another\nand more\n")
    found, _ = step(lines, at)
    assert values(found) == [b"another", b"and more"]


def test_what_is_gone_before_it_was_read_is_told(tmp_path: Path) -> None:
    lines = feed(tmp_path)
    log = tmp_path / "in" / "a.log"
    log.write_bytes(b"one\n")
    start = lines.begin()
    (part,) = lines.parts(start, lines.latest(start))
    log.unlink()
    with pytest.raises(SourceFailed, match="taken away"):
        list(lines.records(part))


def test_a_folder_and_files_that_are_not_read(tmp_path: Path) -> None:
    lines = feed(tmp_path, "in")
    (tmp_path / "in" / "a").write_bytes(b"one\n")
    (tmp_path / "in" / ".b.tmp").write_bytes(b"half")
    (tmp_path / "in" / "_SUCCESS").write_bytes(b"\n")
    (tmp_path / "in" / "a.1.gz").write_bytes(b"\x1f\x8b\n")
    assert values(step(lines, lines.begin())[0]) == [b"one"]


def test_a_frozen_reader_sees_nothing_new(tmp_path: Path) -> None:
    lines = feed(tmp_path)
    log = tmp_path / "in" / "a.log"
    log.write_bytes(b"one\n")
    lines.freeze()
    with log.open("ab") as file:
        file.write(b"two\n")
    (tmp_path / "in" / "b.log").write_bytes(b"three\n")
    found, at = step(lines, lines.begin())
    assert values(found) == [b"one"]
    assert lines.latest(at) == at


@given(seed=st.integers(0, 2**32), most=st.integers(1, 50), block=st.integers(1, 20))
def test_batches_of_any_size_give_every_line_once(
    tmp_path_factory: pytest.TempPathFactory, seed: int, most: int, block: int
) -> None:
    place = tmp_path_factory.mktemp("lines")
    chosen = random.Random(seed)
    texts = [b"x" * chosen.randrange(30) + b"%d" % n for n in range(chosen.randrange(1, 30))]
    lines = feed(place)
    data, written, found = b"".join(text + b"\n" for text in texts), 0, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "MOST_BYTES", most)
        patch.setattr(lines_module, "_BLOCK", block)
        at = lines.begin()
        while written < len(data) or lines.latest(at) != at:
            more = chosen.randrange(20)
            with (place / "in" / "a.log").open("ab") as file:
                file.write(data[written : written + more])
            written += more
            entries, at = step(lines, at)
            found += entries
    assert values(found) == texts
    assert [entry.position for entry in found] == list(range(len(texts)))


def test_a_file_that_becomes_shorter_is_told(tmp_path: Path) -> None:
    lines = feed(tmp_path)
    log = tmp_path / "in" / "a.log"
    log.write_bytes(b"x" * 300 + b"\ntwo\nthree\n")
    start = lines.begin()
    (part,) = lines.parts(start, lines.latest(start))
    for size in (305, 303, 301):  # after a line, inside of it, before it
        os.truncate(log, size)
        with pytest.raises(SourceFailed, match="emptied, before all of it was read"):
            list(lines.records(part))
    assert values(list(feed(tmp_path, lossy=True).records(part))) == [b"x" * 300]


def test_those_who_read_need_no_numbers_and_write_none(tmp_path: Path) -> None:
    lines = feed(tmp_path)
    log = tmp_path / "in" / "a.log"
    log.write_bytes(b"one\n")
    start = lines.begin()
    (part,) = lines.parts(start, lines.latest(start))
    log.rename(tmp_path / "in" / "a.log.1")
    log.write_bytes(b"one\nanother file\n")
    (tmp_path / "files.json").unlink()
    assert values(list(feed(tmp_path).records(part))) == [b"one"]
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_numbers_that_are_lost_are_told(tmp_path: Path) -> None:
    lines = feed(tmp_path)
    (tmp_path / "in" / "a.log").write_bytes(b"one\n")
    end = lines.latest(lines.begin())
    (tmp_path / "files.json").unlink()
    with pytest.raises(SourceFailed, match="copy it back"):
        feed(tmp_path).parts(lines.begin(), end)


@pytest.mark.parametrize("made", [(1, 2), (0, 0)])
def test_a_new_file_with_the_inode_and_the_head_of_a_deleted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: tuple[int, int]
) -> None:
    """It is known by the time at which it was made, or, without that, by having been missing."""
    lines = feed(tmp_path)
    log, away = tmp_path / "in" / "a.log", tmp_path / "away"
    head = b"h" * 300 + b"\n"
    log.write_bytes(head)
    monkeypatch.setattr(numbering, "born", lambda _: made[0])
    _, at = step(lines, lines.begin())
    log.rename(away)  # an inode that comes again, wherever the test runs
    for _ in range(2):
        assert lines.latest(at) == at
    away.write_bytes(head + b"more\n")
    away.rename(log)
    monkeypatch.setattr(numbering, "born", lambda _: made[1])
    assert values(step(lines, at)[0]) == [head.strip(), b"more"]


def test_a_file_that_comes_back_is_known(tmp_path: Path) -> None:
    lines = feed(tmp_path)
    log, away = tmp_path / "in" / "a.log", tmp_path / "away"
    log.write_bytes(b"one\n")
    with log.open("rb") as file:
        made = born(file.fileno())
    _, at = step(lines, lines.begin())
    log.rename(away)
    for _ in range(3):
        assert lines.latest(at) == at
    with away.open("ab") as file:
        file.write(b"two\n")
        assert born(file.fileno()) == made
    away.rename(log)
    assert values(step(lines, at)[0]) == ([b"two"] if made else [b"one", b"two"])


def test_when_a_file_was_made(tmp_path: Path) -> None:
    before = time.time()
    with (tmp_path / "a").open("wb") as file:
        made = born(file.fileno()) / 1e9
    assert not made or before - 1 < made < time.time() + 1


def test_a_file_that_one_look_misses_is_still_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbering, "born", lambda _: 0)
    lines = feed(tmp_path)
    log, away = tmp_path / "in" / "a.log", tmp_path / "away"
    log.write_bytes(b"one\n")
    _, at = step(lines, lines.begin())
    log.rename(away)
    assert lines.latest(at) == at
    away.rename(tmp_path / "in" / "b.log")
    assert lines.latest(at) == at


def test_a_folder_that_is_made_later_is_seen(tmp_path: Path) -> None:
    lines = Lines(NAME, Numbering(str(tmp_path / "late"), tmp_path / "files.json"), whole=False)
    assert lines.latest(lines.begin()) == lines.begin()
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "a").write_bytes(b"one\n")
    assert values(step(lines, lines.begin())[0]) == [b"one"]


def test_a_look_at_many_files_takes_as_long_as_they_are_many(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2_000):
        (tmp_path / "in" / str(number)).write_bytes(b"%d\n" % number)
    files = Numbering(str(tmp_path / "in"), tmp_path / "files.json")
    profile = cProfile.Profile()
    with profile:
        assert len(files.found()) == len(files.found()) == 2_000
    calls = sum(entry.callcount for entry in profile.getstats())
    assert calls < 2 * 2_000 * 200


def test_numbers_are_written_wholly_and_only_when_they_change(tmp_path: Path) -> None:
    lines = feed(tmp_path)
    (tmp_path / "in" / "a.log").write_bytes(b"one\n")
    os.link(tmp_path / "in" / "a.log", tmp_path / "in" / "b.log")  # the same file twice
    _, at = step(lines, lines.begin())
    inode = (tmp_path / "files.json").stat().st_ino
    assert lines.latest(at) == at
    assert (tmp_path / "files.json").stat().st_ino == inode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files.json", "in"]


def test_what_was_kept_before_files_had_times_is_understood(tmp_path: Path) -> None:
    lines = feed(tmp_path)
    (tmp_path / "in" / "a.log").write_bytes(b"one\n")
    _, at = step(lines, lines.begin())
    kept = tmp_path / "files.json"
    (document,) = json.loads(kept.read_text())
    made = document.pop("born")
    kept.write_text(json.dumps([document]))
    assert feed(tmp_path).latest(at) == at
    assert json.loads(kept.read_text())[0]["born"] == made
