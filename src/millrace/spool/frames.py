"""A record as bytes, and back: a checksum, sizes, key, headers, value. No I/O.

The checksum begins with the record's position, so bytes of another place are never taken for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Final
from zlib import crc32

from millrace.errors import OperationFailed
from millrace.ports import Record

#: Position, time, key, headers as they are written, value.
Frame = tuple[int, int | None, bytes | None, bytes, bytes | None]

#: The largest frame; what is larger is refused before anything is written.
LARGEST: Final = (1 << 31) - 1
#: A record that has no time, or a segment before which there was none.
NEVER: Final = -(1 << 63)

_CHECK: Final = Struct("<I")
_SIZES: Final = Struct("<qiiI")
_WHOLE: Final = Struct("<IqiiI")
_PAIR: Final = Struct("<II")
_MASK: Final = 0xFFFFFFFF


def packed(record: Record, position: int) -> tuple[bytes, bytes]:
    """Return a record as it is written at a position, in two pieces."""
    key, value, time = record.key, record.value, record.time
    headers = _headers(record.headers) if record.headers else b""
    size = len(key or b"") + len(headers) + len(value or b"")
    if size > LARGEST - _WHOLE.size:
        raise OperationFailed(
            "record-too-large",
            f"a record of {size >> 20} MiB is too large for a spool",
            "send it in pieces of less than 2 GiB, or send where it is",
        )
    sizes = _SIZES.pack(
        NEVER if time is None else time,
        -1 if key is None else len(key),
        -1 if value is None else len(value),
        len(headers),
    )
    body = b"".join((sizes, key or b"", headers, value or b""))
    return _CHECK.pack(crc32(body, position & _MASK)), body


def _headers(headers: Iterable[tuple[str, bytes]]) -> bytes:
    pieces = []
    for name, value in headers:
        text = name.encode("utf-8", "surrogatepass")
        pieces += [_PAIR.pack(len(text), len(value)), text, value]
    return b"".join(pieces)


def headers_of(written: bytes) -> tuple[tuple[str, bytes], ...]:
    """Return headers as a record has them."""
    found, at = [], 0
    while at < len(written):
        name, value = _PAIR.unpack_from(written, at)
        at += _PAIR.size
        text = written[at : at + name].decode("utf-8", "surrogatepass")
        at += name + value
        found.append((text, written[at - value : at]))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Taken:
    """Frames that were found in a row, the bytes that they take, and why there are no more."""

    frames: list[Frame]
    used: int
    #: How many bytes the next one needs, where the block ends before it does.
    needs: int = 0
    #: Whether what comes next is not what was written at its position.
    bad: bool = False


def taken(block: bytes, position: int, until: int) -> Taken:
    """Take frames from the beginning of a block: from a position on, up to another one."""
    frames: list[Frame] = []
    at, size, head = 0, len(block), _WHOLE.size
    unpack, view, take = _WHOLE.unpack_from, memoryview(block), frames.append
    while position < until:
        if at + head > size:
            return Taken(frames, at, needs=head)
        check, time, key, value, headers = unpack(block, at)
        if key < -1 or value < -1:
            return Taken(frames, at, bad=True)
        behind_key = at + head + (key if key > 0 else 0)
        behind_headers = behind_key + headers
        behind = behind_headers + (value if value > 0 else 0)
        if behind > size:
            return Taken(frames, at, needs=behind - at)
        if crc32(view[at + 4 : behind], position & _MASK) != check:
            return Taken(frames, at, bad=True)
        take(
            (
                position,
                None if time == NEVER else time,
                None if key < 0 else block[at + head : behind_key],
                block[behind_key:behind_headers] if headers else b"",
                None if value < 0 else block[behind_headers:behind],
            )
        )
        at = behind
        position += 1
    return Taken(frames, at)
