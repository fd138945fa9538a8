"""The packets that come and go by the thousand, read and written at once.

Paho makes objects of everything that a packet may say, some twenty microseconds each time. Most
messages say little: a topic, an id, names with texts, a payload. What says more is left to paho.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from millrace.brokers.mqtt.properties import Message

PUBLISH: Final = 0x30
PUBACK: Final = 0x40
_USER_PROPERTY: Final = 0x26
#: Lengths have four bytes of seven bits at most.
_LONGEST: Final = 4
_MORE, _BITS = 0x80, 0x7F
_DUP, _QOS, _RETAIN = 0x08, 0x06, 0x01
_NO_QOS: Final = 3


def length_at(data: bytes | bytearray, at: int) -> tuple[int, int] | None:
    """Return a length and where it ends; None where it is not whole, or none."""
    value = 0
    for number in range(_LONGEST):
        if at + number >= len(data):
            return None
        byte = data[at + number]
        value |= (byte & _BITS) << (7 * number)
        if not byte & _MORE:
            return value, at + number + 1
    return None


def written_length(value: int) -> bytes:
    """Return a length as packets have it."""
    found = bytearray()
    while value > _BITS:
        found.append(value & _BITS | _MORE)
        value >>= 7
    found.append(value)
    return bytes(found)


def whole_packet(data: bytes, at: int) -> tuple[int, int, int] | None:
    """Return the first byte of the packet there, and where its body begins and ends, if whole."""
    found = length_at(data, at + 1)
    if found is None:
        return None
    length, begin = found
    return (data[at], begin, begin + length) if begin + length <= len(data) else None


def message_of(first: int, body: bytes, *, version5: bool) -> Message | None:
    """Return the message of a PUBLISH; None where that is for paho to read, or to refuse."""
    qos = (first & _QOS) >> 1
    at = 2 + int.from_bytes(body[:2], "big")
    behind = at + (2 if qos else 0)
    if qos == _NO_QOS or len(body) < behind or (not version5 and at == 2):
        return None
    number = int.from_bytes(body[at:behind], "big")
    pairs: tuple[tuple[str, str], ...] = ()
    try:
        topic = body[2:at].decode("utf-8")
        if version5:
            found = length_at(body, behind)
            if found is None or found[1] + found[0] > len(body):
                return None
            length, begin = found
            behind = begin + length
            if length:
                pairs = _pairs(body[begin:behind])
    except (UnicodeDecodeError, ValueError):
        return None
    payload = bytes(body[behind:])
    return Message(
        topic, payload, qos, number, bool(first & _DUP), bool(first & _RETAIN), pairs, ()
    )


def _pairs(properties: bytes) -> tuple[tuple[str, str], ...]:
    """The user properties; raises where there are others, or what is none."""
    found, at = [], 0
    while at < len(properties):
        if properties[at] != _USER_PROPERTY:
            raise ValueError
        name, at = _text(properties, at + 1)
        value, at = _text(properties, at)
        found.append((name, value))
    return tuple(found)


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = at + 2 + int.from_bytes(data[at : at + 2], "big")
    if at + 2 > len(data) or end > len(data):
        raise ValueError
    return data[at + 2 : end].decode("utf-8"), end


class UserProperties:
    """User properties as `pack` of paho's gives them; nothing else is asked of them."""

    __slots__ = ("_packed",)

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        parts = []
        for pair in pairs:
            parts.append(b"\x26")
            for text in pair:
                data = text.encode()
                parts += (len(data).to_bytes(2, "big"), data)
        body = b"".join(parts)
        self._packed = written_length(len(body)) + body

    def pack(self) -> bytes:
        """Return them with their length, as packets have them."""
        return self._packed


def acknowledgement(number: int) -> bytes:
    """Return the PUBACK of a message that was taken."""
    return b"\x40\x02" + number.to_bytes(2, "big")
