"""What a spool promises to its writer and readers."""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path
from typing import Any

import pytest

from millrace.errors import OperationFailed
from millrace.ports import Record, Span
from millrace.spool import SpoolReader, SpoolWriter
from millrace.spool.frames import taken
from millrace.spool.mark import newest
from tests.spool.made import all_of, kept, numbered, placed, segments


def test_a_spool_that_is_not_there_is_empty(tmp_path: Path) -> None:
    reader = SpoolReader(tmp_path / "none")
    assert reader.span() == Span(0, 0)
    assert list(reader.read(0)) == list(reader.read(7, 9)) == []
    assert reader.since(0) == 0
    assert not (tmp_path / "none").exists()


def test_readers_see_what_was_committed_and_no_more(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "spool"
    writer, reader = SpoolWriter(folder), SpoolReader(folder)
    assert writer.append(numbered(0, 3)) == 0
    assert writer.append(numbered(3, 2)) == 3
    assert (writer.end, reader.span()) == (0, Span(0, 0))
    assert list(reader.read(0)) == []
    assert writer.commit() == writer.end == 5
    assert reader.span() == Span(0, 5)
    assert list(reader.read(0)) == placed(numbered(0, 5))
    assert list(reader.read(1, 3)) == placed(numbered(1, 2), 1)
    assert list(reader.read(4, 100)) == placed(numbered(4, 1), 4)
    assert list(reader.read(5)) == list(reader.read(3, 3)) == []
    assert list(reader.values(3)) == [(3, b"3", 3), (4, b"4", 4)]
    writer.append(numbered(5, 1))
    writer.close()
    assert SpoolWriter(folder).end == 5


def test_a_read_ends_where_the_end_was_at_the_call(tmp_path: Path) -> None:
    writer, reader = SpoolWriter(tmp_path), SpoolReader(tmp_path)
    writer.append(numbered(0, 2))
    writer.commit()
    reading = reader.read(0)
    writer.append(numbered(2, 2))
    writer.commit()
    assert [record.position for record in reading] == [0, 1]


def test_an_append_that_raises_takes_nothing(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    bad: Any = Record("text")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        writer.append([Record(b"good"), bad])
    assert writer.append([]) == 0
    assert writer.append([Record(b"next")]) == 0
    assert writer.commit() == 1
    assert [record.value for record in all_of(tmp_path)] == [b"next"]


def test_a_second_writer_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    first = SpoolWriter(tmp_path)
    with pytest.raises(OperationFailed) as failure:
        SpoolWriter(tmp_path)
    assert (failure.value.code, failure.value.transient) == ("spool-held", True)
    first.close()
    first.close()
    SpoolWriter(tmp_path).close()


def test_what_is_durable_comes_before_what_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the system's calls; a reader looks at every named place."""
    writer, reader = SpoolWriter(tmp_path), SpoolReader(tmp_path)
    calls: list[str] = []
    pwrite, fdatasync = os.pwrite, os.fdatasync

    def writes(fd: int, data: bytes, at: int) -> int:
        calls.append(f"write {_name(fd)}")
        return pwrite(fd, data, at)

    def syncs(fd: int) -> None:
        calls.append(f"sync {_name(fd)}")
        fdatasync(fd)

    def passes(place: str) -> None:
        calls.append(place)
        assert reader.span() == Span(0, 0)
        assert list(reader.read(0)) == []

    monkeypatch.setattr(os, "pwrite", writes)
    monkeypatch.setattr(os, "fdatasync", syncs)
    monkeypatch.setattr("millrace.spool.writer.reach", passes)
    writer.append(numbered(0, 10))
    writer.commit()
    segment = f"{0:020d}.segment"
    assert calls == [
        "spool.write", f"write {segment}", "spool.sync", f"sync {segment}", "spool.synced",
        "write mark",
    ]  # fmt: skip
    assert reader.span() == Span(0, 10)


def _name(descriptor: int) -> str:
    return Path(f"/proc/self/fd/{descriptor}").readlink().name


def test_what_comes_during_a_commit_waits_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SpoolWriter(tmp_path)
    writer.append(numbered(0, 2))
    with monkeypatch.context() as patch:
        patch.setattr(
            "millrace.spool.writer.reach",
            lambda place: place == "spool.sync" and writer.append(numbered(2, 2)),
        )
        assert writer.commit() == 2
    assert all_of(tmp_path) == placed(numbered(0, 2))
    assert writer.commit() == 4
    assert all_of(tmp_path) == placed(numbered(0, 4))


def test_the_mark_that_readers_take_is_never_the_one_that_is_written(tmp_path: Path) -> None:
    writer, end = SpoolWriter(tmp_path), 0
    for number in range(6):
        before = (tmp_path / "mark").read_bytes()
        writer.append(numbered(end, 3))
        writer.commit()
        after = (tmp_path / "mark").read_bytes()
        changed = {at // 512 for at in range(len(after)) if before[at] != after[at]}
        assert len(changed) == 1
        taken_before = newest(before)
        assert taken_before is not None
        assert taken_before[0] == Span(0, end)
        assert end == 0 or taken_before[1] not in changed
        end += 3
        if number == 2:
            writer.close()
            writer = SpoolWriter(tmp_path)


def test_a_new_segment_and_its_folder_are_synced_before_they_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = SpoolWriter(tmp_path, segment_bytes=1), SpoolReader(tmp_path)
    writer.append(numbered(0, 1))
    writer.commit()
    calls: list[str] = []
    for call in ("fdatasync", "fsync"):
        real = getattr(os, call)

        def spied(fd: int, call: str = call, real: Any = real) -> None:
            calls.append(f"{call} {_name(fd)}")
            assert reader.span().end == 1
            real(fd)

        monkeypatch.setattr(os, call, spied)
    writer.append(numbered(1, 1))
    writer.commit()
    assert calls == [f"fdatasync {1:020d}.segment", f"fsync {tmp_path.name}"]
    assert all_of(tmp_path) == placed(numbered(0, 2))


def test_whole_segments_are_trimmed_and_positions_stay(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, segment_bytes=1)
    reader = SpoolReader(tmp_path)
    for start in range(0, 50, 10):
        writer.append(numbered(start, 10))
        writer.commit()
    writer.trim(25)
    assert reader.span() == Span(20, 50)
    assert all_of(tmp_path) == placed(numbered(20, 30), 20)
    with pytest.raises(OperationFailed) as failure:
        reader.read(19)
    assert failure.value.code == "spool-gone"
    assert "start at 20" in failure.value.hint
    assert list(reader.read(19, 19)) == []
    writer.trim(-1)
    writer.trim(20)
    assert reader.span() == Span(20, 50)
    assert len(segments(tmp_path)) == 3


def test_a_writer_removes_what_another_had_trimmed_when_it_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SpoolWriter(tmp_path, segment_bytes=1)
    for start in range(0, 30, 10):
        writer.append(numbered(start, 10))
        writer.commit()
    monkeypatch.setattr("millrace.spool.writer.drop", lambda *_: None)
    writer.trim(20)
    writer.close()
    assert len(segments(tmp_path)) == 3
    SpoolWriter(tmp_path)
    assert [segment.name for segment in segments(tmp_path)] == [f"{20:020d}.segment"]
    assert all_of(tmp_path) == placed(numbered(20, 10), 20)


def test_positions_go_on_after_all_was_trimmed(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    writer.append(numbered(0, 10))
    writer.commit()
    writer.append(numbered(10, 1))
    writer.trim(1_000)
    assert SpoolReader(tmp_path).span() == Span(10, 10)
    assert writer.commit() == 11
    writer.trim(11)
    writer.close()
    (tmp_path / "mark").unlink()
    assert [segment.name for segment in segments(tmp_path)] == [f"{11:020d}.segment"]
    writer = SpoolWriter(tmp_path)
    assert writer.append(numbered(11, 1)) == 11
    writer.commit()
    assert all_of(tmp_path) == placed(numbered(11, 1), 11)


def test_a_reader_reads_on_in_a_segment_that_is_trimmed(tmp_path: Path) -> None:
    writer, reader = SpoolWriter(tmp_path, segment_bytes=5_000_000), SpoolReader(tmp_path)
    for start in (0, 4000):
        writer.append(numbered(start, 4000, 1000))
        writer.commit()
    reading = reader.read(0)
    assert next(reading).position == 0
    writer.trim(8000)
    assert reader.span() == Span(8000, 8000)
    with pytest.raises(OperationFailed) as failure:
        assert [next(reading).position for _ in range(8000)]
    assert failure.value.code == "spool-gone"
    assert "position 4000 " in failure.value.message


def test_a_time_is_found(tmp_path: Path) -> None:
    times: list[int | None] = [None, 5, 7, 6, None, 20, 10, 30]
    writer, reader = SpoolWriter(tmp_path, segment_bytes=1), SpoolReader(tmp_path)
    for time in times:
        writer.append([Record(b"", time=time)])
        writer.commit()
    assert [reader.since(time) for time in (0, 5, 6, 7, 8, 20, 21, 30, 31)] == [
        1, 1, 2, 2, 5, 5, 7, 7, 8,
    ]  # fmt: skip
    writer.trim(6)
    assert [reader.since(time) for time in (0, 15, 31)] == [6, 7, 8]


def test_a_time_is_found_while_the_spool_is_trimmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SpoolWriter(tmp_path, segment_bytes=1)
    for start in range(0, 30, 10):
        writer.append(numbered(start, 10))
        writer.commit()
    near = SpoolReader._near

    def trimmed(reader: SpoolReader, time: int, span: Span) -> int:
        found = near(reader, time, span)
        writer.trim(20)
        return found

    monkeypatch.setattr(SpoolReader, "_near", trimmed)
    assert SpoolReader(tmp_path).since(5) == 20


def test_a_time_is_found_without_reading_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = [numbered(start, 10) for start in range(0, 1000, 10)]
    kept(tmp_path, *commits, segment_bytes=1)
    opened: list[str] = []
    real = os.open

    def spied(path: Path, *more: int) -> int:
        opened.append(str(path))
        return real(path, *more)

    monkeypatch.setattr(os, "open", spied)
    assert SpoolReader(tmp_path).since(777) == 777
    assert len(opened) < 12


@pytest.mark.parametrize("index", ["whole", "missing", "cut", "wrong", "far"])
def test_any_position_is_found_with_any_index(tmp_path: Path, index: str) -> None:
    commits = [numbered(start, 100, 1000) for start in range(0, 2000, 100)]
    kept(tmp_path, *commits, segment_bytes=1_000_000)
    for file in tmp_path.glob("*.index"):
        written = file.read_bytes()
        assert written
        match index:
            case "missing":
                file.unlink()
            case "cut":
                file.write_bytes(written[:-5])
            case "wrong":
                entries = struct.iter_unpack("<QQ", written)
                file.write_bytes(b"".join(struct.pack("<QQ", p, at + 3) for p, at in entries))
            case "far":
                entries = struct.iter_unpack("<QQ", written)
                file.write_bytes(b"".join(struct.pack("<QQ", p, 2**64 - 1) for p, _ in entries))
    reader = SpoolReader(tmp_path)
    for start in (0, 1, 99, 100, 101, 950, 1500, 1999):
        assert (
            list(reader.read(start, start + 3))
            == placed(numbered(start, 3, 1000), start)[: 2000 - start]
        )


def test_the_index_spares_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(tmp_path, *(numbered(start, 100, 1000) for start in range(0, 5000, 100)))
    counts: list[int] = []

    def counted(block: bytes, position: int, until: int) -> Any:
        counts.append(until - position)
        return taken(block, position, until)

    monkeypatch.setattr("millrace.spool.segments.taken", counted)
    assert next(SpoolReader(tmp_path).read(4950, 4951)).position == 4950
    assert sum(counts) < 200


def test_a_record_larger_than_a_block_comes_back(tmp_path: Path) -> None:
    large = [Record(os.urandom(3_000_000)), Record(b"small"), Record(os.urandom(1_100_000))]
    kept(tmp_path, large)
    assert all_of(tmp_path) == placed(large)
    assert next(SpoolReader(tmp_path).read(2)).value == large[2].value


def test_threads_may_append_while_one_commits(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, segment_bytes=3000)
    found: dict[int, bytes] = {}

    def append(name: int) -> None:
        for number in range(200):
            value = b"%d %d" % (name, number)
            found[writer.append([Record(value)])] = value

    threads = [threading.Thread(target=append, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        writer.commit()
    writer.commit()
    assert {record.position: record.value for record in all_of(tmp_path)} == found
    assert sorted(found) == list(range(600))


def test_a_folder_that_can_t_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OperationFailed) as failure:
        SpoolWriter(tmp_path / "file" / "spool")
    assert failure.value.code == "spool-failed"
    with pytest.raises(OperationFailed) as failure:
        SpoolReader(tmp_path / "file" / "spool").span()
    assert failure.value.code == "spool-failed"
