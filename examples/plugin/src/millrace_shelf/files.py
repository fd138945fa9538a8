"""Partitions as files: records as lines, and an index that says where each of them ends.

A record is there when its entry in the index is. Its line is on the disk before that is written, so
a writer that is killed leaves at most lines that nobody sees, and the next one writes over them.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from millrace.ports import Record

#: Where a line ends, and the record's time in milliseconds.
_ENTRY: Final = struct.Struct("<Qq")


@contextmanager
def locked(file: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold a lock that all processes and threads know; others may read beside who reads."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


def write_whole(file: Path, text: str) -> None:
    """Write a file so that it is there as it was or as it shall be, on the disk."""
    fresh = file.with_name(f"{file.name}.new")
    with fresh.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)
    sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Let the disk know which files a folder has."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a stream. Who calls holds the stream's lock; to write, not a shared one."""

    folder: Path
    number: int

    @property
    def _lines(self) -> Path:
        return self.folder / f"{self.number}.lines"

    @property
    def _index(self) -> Path:
        return self.folder / f"{self.number}.index"

    def make(self) -> None:
        """Make it be there; what it holds stays."""
        self._lines.touch()
        self._index.touch()

    def count(self) -> int:
        """Return how many records it holds."""
        return self._index.stat().st_size // _ENTRY.size

    def append(self, records: Sequence[Record]) -> None:
        """Add records, which have their times; returning promises that they are on the disk."""
        count = self.count()
        end = self._ends(count - 1, count)[0][0] if count else 0
        entries = b""
        with self._lines.open("r+b") as lines:
            lines.truncate(end)
            lines.seek(end)
            for record in records:
                lines.write(_line(record))
                entries += _ENTRY.pack(lines.tell(), record.time or 0)
            lines.flush()
            os.fsync(lines.fileno())
        with self._index.open("r+b") as index:
            index.truncate(count * _ENTRY.size)
            index.seek(count * _ENTRY.size)
            index.write(entries)
            index.flush()
            os.fsync(index.fileno())

    def take(self, start: int, end: int) -> list[Record]:
        """Return the records from a position up to, and without, another one that is there."""
        if start >= end:
            return []
        before = self._ends(start - 1, end) if start else [(0, 0), *self._ends(0, end)]
        with self._lines.open("rb") as lines:
            lines.seek(before[0][0])
            data = lines.read(before[-1][0] - before[0][0]).splitlines()
        return [
            replace(_record(line), partition=self.number, position=start + place)
            for place, line in enumerate(data)
        ]

    def since(self, time: int) -> int:
        """Return the first position whose record has a time or a later one; else the end."""
        times = self._ends(0, self.count())
        return next((place for place, (_, at) in enumerate(times) if at >= time), len(times))

    def _ends(self, start: int, end: int) -> list[tuple[int, int]]:
        """Where the lines of some positions end, and the times of their records."""
        with self._index.open("rb") as index:
            index.seek(start * _ENTRY.size)
            found: list[tuple[int, int]] = list(
                _ENTRY.iter_unpack(index.read((end - start) * _ENTRY.size))
            )
            return found


def _line(record: Record) -> bytes:
    headers = [[name, _text(value)] for name, value in record.headers]
    document = [record.time, _text(record.key), _text(record.value), headers]
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def _record(line: bytes) -> Record:
    time, key, value, headers = json.loads(line)
    pairs = tuple((name, _bytes(text) or b"") for name, text in headers)
    return Record(_bytes(value), _bytes(key), pairs, time=time)


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode("ascii")


def _bytes(text: Any) -> bytes | None:
    return None if text is None else base64.b64decode(text)
