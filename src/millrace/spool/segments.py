"""Segment files: their names, their headers, and what stands in them.

A segment is named after the position of its first record. Its header says the latest time of all
records before it, so that a time is found without reading all of them. A segment is followed by
another only when all of it is durable; where it ends, the next one begins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

from millrace.spool.frames import NEVER, Frame, taken
from millrace.spool.index import STEP

#: The latest time before a segment where damage hides it: any that is asked for may be there.
UNKNOWN: Final = (1 << 63) - 1
#: So many bytes are read at once.
BLOCK: Final = 1 << 20
_MAGIC: Final = b"MILLSPL1"
_HEAD: Final = Struct("<8sQq")
_CHECK: Final = Struct("<I")
#: Where the records of a segment begin.
HEADER: Final = _HEAD.size + _CHECK.size
_NAME: Final = re.compile(r"(\d{20})\.segment")


def path_of(folder: Path, base: int) -> Path:
    """Return the file of the segment that begins at a position."""
    return folder / f"{base:020d}.segment"


def bases(folder: Path) -> list[int]:
    """Return where the segments of a folder begin, in order."""
    names = (_NAME.fullmatch(path.name) for path in folder.iterdir())
    return sorted(int(name[1]) for name in names if name is not None)


def header(base: int, latest: int) -> bytes:
    """Return what a segment begins with."""
    written = _HEAD.pack(_MAGIC, base, latest)
    return written + _CHECK.pack(crc32(written))


def latest_before(descriptor: int, base: int) -> int | None:
    """Return the latest time before a segment; None where its header is not whole."""
    written = os.pread(descriptor, HEADER, 0)
    if len(written) < HEADER:
        return None
    latest: int = _HEAD.unpack_from(written)[2]
    return latest if written == header(base, latest) else None


def blocks(
    descriptor: int, at: int, position: int, until: int
) -> Iterator[tuple[list[Frame], int]]:
    """Give frames in lists, each with where it ends; stops before what is not whole and right.

    Nothing that stands at `until` or behind is looked at.
    """
    size = BLOCK
    while position < until:
        block = _read(descriptor, size, at)
        found = taken(block, position, until)
        if found.frames:
            at += found.used
            position += len(found.frames)
            yield found.frames, at
            if found.bad:
                return
            size = BLOCK
        elif size < found.needs <= os.fstat(descriptor).st_size - at:
            size = found.needs
        else:
            return


def _read(descriptor: int, size: int, at: int) -> bytes:
    """Read so many bytes, or all up to the end of the file."""
    block = os.pread(descriptor, size, at)
    while 0 < len(block) < size:
        more = os.pread(descriptor, size - len(block), at + len(block))
        if not more:
            break
        block += more
    return block


@dataclass(slots=True)
class Found:
    """What is whole in a segment: up to which position and byte, and the latest time."""

    end: int
    size: int
    latest: int
    #: Positions and where they stand, for the index.
    ways: list[tuple[int, int]] = field(default_factory=list)


def scan(folder: Path, base: int) -> Found | None:
    """Look how much of a segment is whole; None where not even its header is."""
    descriptor = os.open(path_of(folder, base), os.O_RDONLY)
    try:
        latest = latest_before(descriptor, base)
        if latest is None:
            return None
        found = Found(base, HEADER, latest)
        for frames, at in blocks(descriptor, HEADER, base, 1 << 64):
            if not found.ways or found.size - found.ways[-1][1] >= STEP:
                found.ways.append((found.end, found.size))
            found.end += len(frames)
            found.size = at
            found.latest = max(found.latest, *(_time(frame) for frame in frames))
        return found
    finally:
        os.close(descriptor)


def _time(frame: Frame) -> int:
    return NEVER if frame[1] is None else frame[1]


@dataclass(slots=True)
class Segment:
    """The segment that is written; `size` is how much of it is durable."""

    folder: Path
    base: int
    descriptor: int
    size: int

    @classmethod
    def make(cls, folder: Path, base: int, latest: int) -> Segment:
        """Begin a segment, in place of what a failed attempt left; not durable before `sync`."""
        path = path_of(folder, base)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        segment = cls(folder, base, descriptor, 0)
        try:
            segment.write(header(base, latest))
        except BaseException:
            segment.discard()
            raise
        segment.size = HEADER
        return segment

    @classmethod
    def open(cls, folder: Path, base: int, size: int) -> Segment:
        """Go on with a segment, of which so many bytes are whole; the rest is cut off."""
        segment = cls(folder, base, os.open(path_of(folder, base), os.O_RDWR), size)
        try:
            segment.cut()
            segment.sync()
        except BaseException:
            segment.close()
            raise
        return segment

    def write(self, data: bytes) -> None:
        """Write behind what is durable."""
        rest, at = memoryview(data), self.size
        while rest:
            count = os.pwrite(self.descriptor, rest, at)
            rest, at = rest[count:], at + count

    def sync(self) -> None:
        """Make what was written durable."""
        os.fdatasync(self.descriptor)

    def cut(self) -> None:
        """Cut off what is not durable."""
        if os.fstat(self.descriptor).st_size > self.size:
            os.ftruncate(self.descriptor, self.size)

    def discard(self) -> None:
        """Remove a segment in which nothing is durable."""
        self.close()
        path_of(self.folder, self.base).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make durable which files a folder has."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
