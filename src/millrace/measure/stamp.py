"""The checker's record: who sent it, which one it is, when it was due, and a sum over all that."""

from __future__ import annotations

import json
import random
import string
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from millrace.ports import Record

#: The columns by their Spark SQL types, for the streams that carry these records.
SCHEMA: Final[Mapping[str, str]] = {
    "run": "string",
    "writer": "int",
    "seq": "long",
    "key": "string",
    "sent": "long",
    "pad": "string",
    "crc": "long",
}
#: Writers and numbers stay below this; it bounds the memory of a checker.
MOST: Final = 2**31
_LONG: Final = 2**63
_CRC_DIGITS: Final = 10
_FILLING: Final = 4096


@dataclass(frozen=True, slots=True)
class Stamp:
    """A record of a run: the `seq`th of a writer, due at `sent` (microseconds since the epoch)."""

    run: str
    writer: int
    seq: int
    key: str
    sent: int
    pad: str


def stamped(run: str, writer: int, seq: int, key: str, sent: int, size: int) -> Record:
    """Return the record of a stamp, padded so that its value has about `size` bytes.

    Raises ValueError for numbers that `read_stamp` would not take.
    """
    if not (0 <= writer < MOST and 0 <= seq < MOST and abs(sent) < _LONG):
        raise ValueError(f"writer {writer}, seq {seq}, sent {sent}: out of range")
    frame = (
        f'{{"run":{_quoted(run)},"writer":{writer},"seq":{seq},'
        f'"key":{_quoted(key)},"sent":{sent},"pad":"'
    )
    tail = '","crc":}'
    pad = _pad(size - len(frame) - len(tail) - _CRC_DIGITS, seq)
    crc = _crc(run, writer, seq, key, sent, pad)
    return Record(f'{frame}{pad}","crc":{crc}}}'.encode(), key.encode())


def read_stamp(value: bytes | None) -> Stamp | None:
    """Return the stamp of a value; None where it is not one, or not as it was sent.

    Columns that a job added, the order of columns and white space do not matter.
    """
    if value is None:
        return None
    try:
        document = json.loads(value.decode())  # by itself json looks for UTF-16 too
        if not isinstance(document, dict):
            return None
        stamp = Stamp(
            document["run"],
            document["writer"],
            document["seq"],
            document["key"],
            document["sent"],
            document["pad"],
        )
        return stamp if _sound(stamp, document["crc"]) else None
    except (KeyError, ValueError, RecursionError):  # ValueError: no JSON, no UTF-8, lone surrogates
        return None


def _sound(stamp: Stamp, crc: object) -> bool:
    """Whether types and ranges are right and the sum is that of the fields."""
    if not (type(stamp.run) is type(stamp.key) is type(stamp.pad) is str):
        return False
    # Types and not isinstance: True is no number here.
    if not (type(stamp.writer) is type(stamp.seq) is type(stamp.sent) is type(crc) is int):
        return False
    if not (0 <= stamp.writer < MOST and 0 <= stamp.seq < MOST and abs(stamp.sent) < _LONG):
        return False
    return crc == _crc(stamp.run, stamp.writer, stamp.seq, stamp.key, stamp.sent, stamp.pad)


def _crc(run: str, writer: int, seq: int, key: str, sent: int, pad: str) -> int:
    # The lengths keep two different records from having one text.
    text = f"{writer},{seq},{sent},{len(run)},{len(key)},{run}{key}{pad}"
    return zlib.crc32(text.encode())


@lru_cache(maxsize=4096)
def _quoted(text: str) -> str:
    return json.dumps(text)


def _pad(length: int, seq: int) -> str:
    """Some text that differs between neighbours, so that compression can't hide a size."""
    if length <= 0:
        return ""
    start = (seq * 7919) % _FILLING
    filling = _filling()
    if start + length > len(filling):
        filling *= (start + length) // len(filling) + 1
    return filling[start : start + length]


@lru_cache(maxsize=1)
def _filling() -> str:
    letters = string.ascii_letters + string.digits
    return "".join(random.Random(1).choices(letters, k=2 * _FILLING))  # noqa: S311 - no secret
