"""The index of a segment: where some of its records stand, so that few bytes are read in vain.

It is only a hint. It is never synced, and it may be missing, cut or wrong: who follows it looks
whether the record that it promises is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Final

#: Entries are at least so many bytes of a segment apart.
STEP: Final = 1 << 16
_ENTRY: Final = Struct("<QQ")


def path_of(folder: Path, base: int) -> Path:
    """Return the index of the segment that begins at a position."""
    return folder / f"{base:020d}.index"


def nearest(folder: Path, base: int, position: int) -> tuple[int, int] | None:
    """Return the last entry up to a position, as position and place; None where none is."""
    with suppress(OSError):
        written = path_of(folder, base).read_bytes()
        entries = _ENTRY.iter_unpack(written[: len(written) // _ENTRY.size * _ENTRY.size])
        return max((entry for entry in entries if base < entry[0] <= position), default=None)
    return None


class Index:
    """The index of the segment that is written. What the disk refuses is left out."""

    def __init__(self, folder: Path, base: int, ways: Iterable[tuple[int, int]] = ()) -> None:
        self._last = 0
        self._descriptor = -1
        with suppress(OSError):
            self._descriptor = os.open(
                path_of(folder, base), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600
            )
        for position, at in ways:
            self.add(position, at)

    def add(self, position: int, at: int) -> None:
        """Note where a record stands, unless one near it is noted already."""
        if self._descriptor >= 0 and at - self._last >= STEP:
            self._last = at
            with suppress(OSError):
                if os.write(self._descriptor, _ENTRY.pack(position, at)) < _ENTRY.size:
                    self.close()  # behind half an entry no other is found

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
