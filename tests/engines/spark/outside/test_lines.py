"""Files that grow, are turned, emptied and read in pieces: every whole line once, in its order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.engines.spark.outside import lines as lines_module
from millrace.engines.spark.outside.feed import Ends, Entry
from millrace.engines.spark.outside.lines import Lines
from millrace.engines.spark.outside.numbering import Numbering

NAME = "@job"


def feed(place: Path, pattern: str = "in/*", *, whole: bool = False) -> Lines:
    (place / "in").mkdir(exist_ok=True)
    return Lines(NAME, Numbering(str(place / pattern), place / "files.json"), whole=whole)


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
    with pytest.raises(FileNotFoundError, match="taken away"):
        list(lines.records(part))


def test_a_folder_and_hidden_files(tmp_path: Path) -> None:
    lines = feed(tmp_path, "in")
    (tmp_path / "in" / "a").write_bytes(b"one\n")
    (tmp_path / "in" / ".b.tmp").write_bytes(b"half")
    (tmp_path / "in" / "_SUCCESS").write_bytes(b"\n")
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
