"""A disk that is full or fails: it is told, nothing durable is lost, and it goes on later."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from millrace.errors import OperationFailed
from millrace.ports import Record
from millrace.spool import SpoolReader, SpoolWriter
from tests.spool.made import all_of, numbered, placed, segments

SIZE = 1 << 20


@contextmanager
def limited(size: int) -> Iterator[None]:
    """No file of this process may become larger."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Mount a disk of a megabyte; says whether that is allowed here."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    mounted = shutil.which("mount") is not None and (
        subprocess.run(command, capture_output=True, check=False).returncode == 0
    )
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def filled(writer: SpoolWriter, size: int) -> tuple[OperationFailed, int]:
    """Commit until that fails; returns how, and how many records were appended in all."""
    count = 0
    for _ in range(100):
        writer.append(numbered(count, 50, size))
        count += 50
        try:
            assert writer.commit() == count
        except OperationFailed as failure:
            return failure, count
    pytest.fail("the disk did not become full")


def seen_after(
    folder: Path, writer: SpoolWriter, failure: OperationFailed, count: int, size: int
) -> None:
    """What was durable is read, twice; the rest is not, and is not half there."""
    assert (failure.code, failure.transient) == ("disk-full", True)
    assert "make room" in failure.hint
    assert writer.end == SpoolReader(folder).span().end == count - 50
    assert all_of(folder) == placed(numbered(0, count - 50, size))
    with pytest.raises(OperationFailed):
        writer.commit()
    assert all_of(folder) == placed(numbered(0, count - 50, size))


@pytest.mark.parametrize("segment_bytes", [150_000, 1 << 26])
def test_a_full_disk_is_told_and_it_goes_on_when_there_is_room(
    tmp_path: Path, segment_bytes: int
) -> None:
    with small_disk(tmp_path / "disk") as mounted:
        folder, filler = tmp_path / "disk" / "spool", tmp_path / "disk" / "filler"
        filler.write_bytes(bytes(SIZE // 4))
        writer = SpoolWriter(folder, segment_bytes=segment_bytes if mounted else 1 << 26)
        with limited(1 << 40 if mounted else 120_000):
            failure, count = filled(writer, 1000)
            seen_after(folder, writer, failure, count, 1000)
            writer.append(numbered(count, 5))
        filler.unlink()
        assert writer.commit() == count + 5
        assert all_of(folder) == placed([*numbered(0, count, 1000), *numbered(count, 5)])
        writer.close()


def test_a_file_that_may_not_grow_is_told_and_it_goes_on(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path)
    with limited(120_000):
        failure, count = filled(writer, 777)
        seen_after(tmp_path, writer, failure, count, 777)
    assert segments(tmp_path)[-1].stat().st_size < 120_000, "what is not durable is cut off"
    assert writer.commit() == count
    assert all_of(tmp_path) == placed(numbered(0, count, 777))


def test_a_writer_begins_and_trims_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as mounted:
        folder, segment_bytes = tmp_path / "disk" / "spool", 150_000 if mounted else 1 << 26
        writer = SpoolWriter(folder, segment_bytes=segment_bytes)
        with limited(1 << 40 if mounted else 120_000):
            _, count = filled(writer, 1000)
            writer.close()
            if mounted:
                _fill(tmp_path / "disk" / "filler")
            writer = SpoolWriter(folder, segment_bytes=segment_bytes)
            assert writer.end == count - 50
            writer.trim(writer.end)
            writer.append(numbered(writer.end, 50, 1000))
            assert writer.commit() == count
        assert SpoolReader(folder).span().first > 0
        assert all_of(folder) == placed(
            numbered(0, count, 1000)[SpoolReader(folder).span().first :],
            SpoolReader(folder).span().first,
        )
        writer.close()


def _fill(file: Path) -> None:
    with file.open("wb", buffering=0) as out, suppress(OSError):
        while True:
            out.write(bytes(4096))


def _fails(number: int, real: Callable[..., object]) -> Callable[..., object]:
    """A call of the system that fails for the nth time."""
    calls = 0

    def call(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == number:
            raise OSError(errno.EIO, "Input/output error")
        return real(*arguments)

    return call


def committed(writer: SpoolWriter, code: str) -> bool:
    """Whether a commit worked; if not, it said this."""
    try:
        writer.commit()
    except OperationFailed as failure:
        if failure.code != code:
            raise
        return False
    return True


@pytest.mark.parametrize("segment_bytes", [1, 1 << 20])
@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "fsync", "open"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_any_call_that_fails_leaves_it_whole(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    number: int,
    segment_bytes: int,
) -> None:
    """A sync that failed says nothing of what is on the disk: the data is written anew."""
    writer = SpoolWriter(tmp_path, segment_bytes=segment_bytes)
    writer.append(numbered(0, 5))
    writer.commit()
    end, failed = 5, 0
    with monkeypatch.context() as patch:
        patch.setattr(os, call, _fails(number, getattr(os, call)))
        for _ in range(4):
            writer.append(numbered(end, 5))
            end += 5
            before = SpoolReader(tmp_path).span().end
            if not committed(writer, "spool-failed"):
                failed += 1
                assert SpoolReader(tmp_path).span().end == before
    assert failed <= 1
    if call in ("pwrite", "fdatasync"):
        assert failed == 1
    assert writer.commit() == end
    assert all_of(tmp_path) == placed(numbered(0, end))
    writer.close()
    writer = SpoolWriter(tmp_path)
    assert writer.append([Record(b"")]) == end


@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "fsync", "ftruncate", "open"])
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("there", [False, True])
def test_a_start_that_fails_lets_the_next_one_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, there: bool
) -> None:
    if there:
        writer = SpoolWriter(tmp_path)
        writer.append(numbered(0, 5))
        writer.commit()
        writer.close()
        with segments(tmp_path)[0].open("ab") as file:
            file.write(b"torn")
    opened: SpoolWriter | None = None
    with monkeypatch.context() as patch, suppress(OperationFailed):
        patch.setattr(os, call, _fails(number, getattr(os, call)))
        opened = SpoolWriter(tmp_path)
    writer = opened or SpoolWriter(tmp_path)
    assert writer.end == 5 * there
    writer.append(numbered(writer.end, 5))
    writer.commit()
    assert all_of(tmp_path) == placed(numbered(0, 5 + 5 * there))


def test_what_could_not_be_cut_off_is_cut_off_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would stand behind the end of a segment that is then followed by another."""
    writer = SpoolWriter(tmp_path, segment_bytes=1000)
    writer.append(numbered(0, 5))
    writer.commit()
    writer.append(numbered(5, 5))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", _fails(1, os.fdatasync))
        patch.setattr(os, "ftruncate", _fails(1, os.ftruncate))
        assert not committed(writer, "spool-failed")
    writer.append(numbered(10, 5, 1000))
    assert writer.commit() == 15
    assert len(segments(tmp_path)) == 2
    assert all_of(tmp_path) == placed([*numbered(0, 10), *numbered(10, 5, 1000)])


def test_trimming_without_room_for_a_new_segment_keeps_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SpoolWriter(tmp_path)
    writer.append(numbered(0, 5))
    writer.commit()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", _fails(1, os.pwrite))
        writer.trim(5)
        assert all_of(tmp_path) == placed(numbered(0, 5))
        assert len(segments(tmp_path)) == 1
    writer.trim(5)
    assert all_of(tmp_path) == []
    assert writer.append(numbered(5, 1)) == 5
    assert writer.commit() == 6
    assert all_of(tmp_path) == placed(numbered(5, 1), 5)


def test_a_sync_that_failed_has_its_data_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, written = SpoolWriter(tmp_path), list[int]()
    real = os.pwrite

    def spied(descriptor: int, data: bytes, at: int) -> int:
        written.append(len(data))
        return real(descriptor, data, at)

    monkeypatch.setattr(os, "pwrite", spied)
    monkeypatch.setattr(os, "fdatasync", _fails(1, os.fdatasync))
    writer.append(numbered(0, 5, 1000))
    with pytest.raises(OperationFailed):
        writer.commit()
    assert segments(tmp_path)[0].stat().st_size < 1000
    assert writer.commit() == 5
    assert len([size for size in written if size > 5000]) == 2
