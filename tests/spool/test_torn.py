"""What a crash or a bad disk leaves: torn tails are cut, damage is told."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.errors import OperationFailed
from millrace.ports import Record, Span
from millrace.spool import SpoolReader, SpoolWriter
from millrace.spool.frames import NEVER
from millrace.spool.mark import newest
from millrace.spool.segments import HEADER, latest_before
from tests.spool.made import RECORDS, all_of, kept, numbered, placed, quick_folder, segments

BATCH = st.lists(RECORDS, min_size=1, max_size=4)


def lost_power(
    folder: Path, copy: Path, before: list[list[Record]], last: list[Record], size: int
) -> tuple[int, bytes]:
    """Write; in `copy` is what was there between the write and the sync of the last commit.

    Returns how much of the last file had been there before, and a mark that is older by a commit.
    """
    writer = SpoolWriter(folder, segment_bytes=size)
    old = (folder / "mark").read_bytes()
    for records in before:
        old = (folder / "mark").read_bytes()
        writer.append(records)
        writer.commit()
    sizes = {file.name: file.stat().st_size for file in segments(folder)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "millrace.spool.writer.reach",
            lambda place: place == "spool.sync" and shutil.copytree(folder, copy),
        )
        writer.append(last)
        writer.commit()
    writer.close()
    return sizes.get(segments(copy)[-1].name, 0), old


@settings(max_examples=150)
@given(
    before=st.lists(BATCH, max_size=4),
    last=BATCH,
    size=st.sampled_from([1, 300, 1 << 20]),
    mark=st.sampled_from(["newest", "older", "torn", "empty", "missing"]),
    data=st.data(),
)
def test_any_torn_tail_gives_a_prefix_with_all_that_was_committed(
    before: list[list[Record]], last: list[Record], size: int, mark: str, data: st.DataObject
) -> None:
    with quick_folder() as folder:
        copy = folder.with_name("copy")
        durable, old = lost_power(folder, copy, before, last, size)
        tail, new = segments(copy)[-1], (copy / "mark").read_bytes()
        written = tail.read_bytes()
        cut = data.draw(st.integers(durable, len(written)), label="cut")
        rest = data.draw(st.sampled_from([b"", bytes(100), b"\xff" * 100]), label="rest")
        tail.write_bytes(written[:cut] + rest)
        marks = {"newest": new, "older": old, "torn": b"torn" + old[4:], "empty": b""}
        if mark in marks:
            (copy / "mark").write_bytes(marks[mark])
        else:
            (copy / "mark").unlink()
        records = [record for batch in before for record in batch]
        everything = placed([*records, *last])
        if mark == "newest":
            assert SpoolReader(copy).span() == Span(0, len(records))
            assert all_of(copy) == everything[: len(records)]
        writer = SpoolWriter(copy, segment_bytes=size)
        assert len(records) <= writer.end <= len(everything)
        assert cut < len(written) or writer.end == len(everything)
        assert all_of(copy) == everything[: writer.end]
        left = segments(copy)[-1].read_bytes()
        assert written.startswith(left) or len(left) == HEADER, "the rest is cut off"
        end = writer.append([Record(b"after")])
        assert end == writer.end
        writer.commit()
        assert all_of(copy) == [*everything[:end], *placed([Record(b"after")], end)]
        writer.close()


def test_what_a_killed_writer_left_is_synced_before_it_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    lost_power(tmp_path / "spool", copy, [numbered(0, 5)], numbered(5, 5), 1 << 20)
    ends: list[int] = []
    real = os.fdatasync

    def spied(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == segments(copy)[0].stat().st_ino:
            ends.append(SpoolReader(copy).span().end)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", spied)
    before = (copy / "mark").read_bytes()
    assert SpoolWriter(copy).end == SpoolReader(copy).span().end == 10
    assert ends == [5]
    after, old = (copy / "mark").read_bytes(), newest(before)
    assert old is not None
    kept_slot = slice(512 * old[1], 512 * old[1] + 20)
    assert after[kept_slot] == before[kept_slot], "the slot that readers took stays whole"


@settings(max_examples=150)
@given(st.lists(BATCH, min_size=1, max_size=4), st.sampled_from([1, 300]), st.data())
def test_any_flipped_byte_is_told_and_nothing_wrong_is_read(
    commits: list[list[Record]], size: int, data: st.DataObject
) -> None:
    everything = placed([record for commit in commits for record in commit])
    with quick_folder() as folder:
        kept(folder, *commits, segment_bytes=size)
        file = data.draw(st.sampled_from(segments(folder)))
        _flip(file, data.draw(st.integers(0, file.stat().st_size - 1)))
        read: list[Record] = []
        with pytest.raises(OperationFailed) as failure:
            read += SpoolReader(folder).read(0)
        _told(failure.value)
        assert read == everything[: len(read)]
        writer = SpoolWriter(folder, segment_bytes=size)
        assert writer.end == len(everything), "positions that were seen are not given again"
        assert writer.append([Record(b"after")]) == len(everything)
        writer.commit()
        assert list(SpoolReader(folder).read(len(everything))) == placed(
            [Record(b"after")], len(everything)
        )
        with pytest.raises(OperationFailed) as failure:
            list(SpoolReader(folder).read(0))
        _told(failure.value)
        writer.close()


def _told(failure: OperationFailed) -> None:
    assert (failure.code, failure.transient) == ("spool-damaged", False)
    assert "start at" in failure.hint


def _flip(file: Path, at: int) -> None:
    written = bytearray(file.read_bytes())
    written[at] ^= 0x10
    file.write_bytes(written)


def test_a_damaged_segment_says_where_to_go_on(tmp_path: Path) -> None:
    kept(tmp_path, *(numbered(start, 10) for start in (0, 10, 20)), segment_bytes=1)
    file = segments(tmp_path)[1]
    _flip(file, file.stat().st_size - 1)
    reader = SpoolReader(tmp_path)
    reading = reader.read(0)
    assert [next(reading).position for _ in range(19)] == list(range(19))
    with pytest.raises(OperationFailed) as failure:
        next(reading)
    assert file.name in failure.value.message
    assert "position 19 " in failure.value.message
    assert "start at 20" in failure.value.hint
    assert list(reader.read(20)) == placed(numbered(20, 10), 20)


def test_a_time_behind_a_damaged_header_is_not_guessed(tmp_path: Path) -> None:
    kept(tmp_path, *(numbered(start, 10) for start in (0, 10, 20)), segment_bytes=1)
    _flip(segments(tmp_path)[1], 20)
    with pytest.raises(OperationFailed) as failure:
        SpoolReader(tmp_path).since(15)
    _told(failure.value)


def test_damage_in_the_last_segment_ends_with_a_new_one(tmp_path: Path) -> None:
    kept(tmp_path, numbered(0, 10), numbered(10, 10))
    _flip(segments(tmp_path)[0], 60)
    with pytest.raises(OperationFailed) as failure:
        list(SpoolReader(tmp_path).read(0))
    assert "restart what writes" in failure.value.hint
    assert kept(tmp_path, numbered(20, 5)) == 25
    assert [file.name for file in segments(tmp_path)] == [
        f"{0:020d}.segment",
        f"{20:020d}.segment",
    ]
    assert list(SpoolReader(tmp_path).read(20)) == placed(numbered(20, 5), 20)
    assert SpoolReader(tmp_path).span() == Span(0, 25)
    with pytest.raises(OperationFailed) as failure:  # it may be in what can't be read
        SpoolReader(tmp_path).since(5)
    assert failure.value.code == "spool-damaged"


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("how", ["empty", "missing", "cut", "header"])
def test_a_file_that_lost_what_was_durable_is_told(tmp_path: Path, number: int, how: str) -> None:
    kept(tmp_path, *(numbered(start, 10) for start in (0, 10, 20)), segment_bytes=1)
    file = segments(tmp_path)[number]
    if how == "missing":
        file.unlink()
    else:
        left = {"empty": 0, "cut": -1, "header": HEADER}
        file.write_bytes(file.read_bytes()[: left[how]])
    with pytest.raises(OperationFailed) as failure:
        list(SpoolReader(tmp_path).read(0))
    assert failure.value.code == "spool-damaged"
    for index in tmp_path.glob("*.index"):
        index.unlink()
    assert kept(tmp_path, numbered(30, 1), segment_bytes=1) == 31
    assert list(SpoolReader(tmp_path).read(30)) == placed(numbered(30, 1), 30)
    with pytest.raises(OperationFailed) as failure:
        list(SpoolReader(tmp_path).read(0))
    expected = "spool-gone" if (number, how) == (0, "missing") else "spool-damaged"
    assert failure.value.code == expected


@pytest.mark.parametrize("before", [0, 2])
def test_a_segment_that_was_just_being_made_is_made_anew(tmp_path: Path, before: int) -> None:
    for header in (b"", b"MILL", bytes(28)):
        folder = tmp_path / header.hex()
        commits = [numbered(start, 10) for start in range(0, 10 * before, 10)]
        end = kept(folder, *commits, segment_bytes=1)
        (folder / f"{end:020d}.segment").write_bytes(header)
        assert kept(folder, numbered(end, 10), segment_bytes=1) == end + 10
        assert all_of(folder) == placed(numbered(0, end + 10))
        assert SpoolReader(folder).since(end - 1) == max(end - 1, 0)
        with (folder / f"{end:020d}.segment").open("rb") as file:
            assert latest_before(file.fileno(), end) == (end - 1 if before else NEVER)


def test_a_mark_without_a_whole_slot_is_told_and_made_anew(tmp_path: Path) -> None:
    kept(tmp_path, numbered(0, 10))
    (tmp_path / "mark").write_bytes(b"\1" * 540)
    with pytest.raises(OperationFailed) as failure:
        SpoolReader(tmp_path).span()
    assert (failure.value.code, failure.value.transient) == ("spool-damaged", True)
    SpoolWriter(tmp_path).close()
    assert all_of(tmp_path) == placed(numbered(0, 10))


def test_other_files_in_the_folder_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "12.segment").write_text("not ours")
    (tmp_path / "notes").mkdir()
    assert kept(tmp_path, numbered(0, 3)) == 3
    assert all_of(tmp_path) == placed(numbered(0, 3))
