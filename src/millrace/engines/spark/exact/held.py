"""Records that windows hold for a function of the user's, packed one after another."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

_HEAD = struct.Struct("<qiqI")
#: Stands for the length of a record without a value.
_NOTHING = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Held:
    """A record in a window: its time, where it came from, and itself."""

    time: int
    source: int
    position: int
    value: bytes | None


def packed(records: Iterable[Held]) -> bytes:
    """Return records as bytes; those of two windows are put together by joining them."""
    return b"".join(_packed(r.time, r.source, r.position, r.value) for r in records)


def _packed(time: int, source: int, position: int, value: bytes | None) -> bytes:
    if value is None:
        return _HEAD.pack(time, source, position, _NOTHING)
    return _HEAD.pack(time, source, position, len(value)) + value


def unpacked(data: bytes) -> list[Held]:
    """Return records of their bytes, the oldest first; equal ones in the order of positions."""
    return sorted(_each(data), key=lambda held: (held.time, held.source, held.position))


def _each(data: bytes) -> Iterator[Held]:
    at = 0
    while at < len(data):
        time, source, position, size = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if size == _NOTHING:
            yield Held(time, source, position, None)
            continue
        yield Held(time, source, position, data[at : at + size])
        at += size


def by_group(records: Any, groups: Any, count: int) -> list[bytes]:
    """Return the records of each group, packed.

    `records` has the columns `time`, `source`, `position` and `payload`.
    """
    names = ("time", "source", "position", "payload")
    columns = [records[name].to_numpy() for name in names]
    pieces: list[list[bytes]] = [[] for _ in range(count)]
    for group, time, source, position, value in zip(groups, *columns, strict=True):
        held = None if value is None else bytes(value)
        pieces[group].append(_packed(int(time), int(source), int(position), held))
    return [b"".join(piece) for piece in pieces]


def joined(values: Any, groups: Any, count: int) -> list[bytes]:
    """Return what several windows of a group hold together."""
    order = np.argsort(groups, kind="stable")
    pieces: list[list[bytes]] = [[] for _ in range(count)]
    for at in order:
        pieces[groups[at]].append(values[at])
    return [b"".join(piece) for piece in pieces]
