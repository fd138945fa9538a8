"""The mark: which positions readers may see.

It has two slots that are written by turns, each with a checksum: a reader that comes while one is
written, or after a crash in the middle of it, takes the other, which is older and still true.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

from millrace.ports import Span

NAME: Final = "mark"
_PLACE: Final = Struct("<QQ")
_CHECK: Final = Struct("<I")
#: Slots stand in disk sectors of their own.
_APART: Final = 512
_SIZE: Final = _APART + _PLACE.size + _CHECK.size


def slot(span: Span) -> bytes:
    """Return a span as it is written."""
    written = _PLACE.pack(span.first, span.end)
    return written + _CHECK.pack(crc32(written))


def newest(written: bytes) -> tuple[Span, int] | None:
    """Return what a mark says, and in which slot; None where neither is whole."""
    found = []
    for number in (0, 1):
        at = _APART * number
        if len(written) >= at + _PLACE.size + _CHECK.size:
            first, end = _PLACE.unpack_from(written, at)
            (check,) = _CHECK.unpack_from(written, at + _PLACE.size)
            if crc32(written[at : at + _PLACE.size]) == check and first <= end:
                found.append((end, first, number))
    if not found:
        return None
    end, first, number = max(found)
    return Span(first, end), number


def look(folder: Path) -> Span | None:
    """Return what the mark of a folder says; None where it is not whole, raises where none is."""
    found = newest((folder / NAME).read_bytes())
    return None if found is None else found[0]


@dataclass(slots=True)
class MarkFile:
    """The mark as its writer holds it."""

    descriptor: int
    #: The slot that is written next: never that which readers now take.
    turn: int

    @classmethod
    def open(cls, folder: Path) -> MarkFile | None:
        """Open the mark of a folder; None where there is none that is whole.

        One that is there is kept: it needs no room on a disk that may be full.
        """
        try:
            descriptor = os.open(folder / NAME, os.O_RDWR)
        except FileNotFoundError:
            return None
        found = newest(os.pread(descriptor, _SIZE, 0))
        if found is None or os.fstat(descriptor).st_size < _SIZE:
            os.close(descriptor)
            return None
        return cls(descriptor, 1 - found[1])

    @classmethod
    def make(cls, folder: Path, span: Span) -> MarkFile:
        """Write the mark of a folder anew, whole or not at all."""
        new = folder / f"{NAME}.new"
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.pwrite(descriptor, slot(span).ljust(_APART, b"\0") + slot(span), 0)
            os.fdatasync(descriptor)
            new.replace(folder / NAME)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor, 0)

    def put(self, span: Span) -> None:
        """Let readers see a span."""
        os.pwrite(self.descriptor, slot(span), _APART * self.turn)
        self.turn ^= 1

    def close(self) -> None:
        """Leave it as it is."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
