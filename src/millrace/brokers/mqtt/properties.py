"""Records as messages: keys, headers and times as user properties of MQTT 5, and back.

A property's name and value are text. A header that is text goes as it is. One that is not (no
UTF-8, or with characters that MQTT or its clients refuse: controls, U+FEFF, non-characters), or
that begins with `base64:` itself, goes as `base64:` and its bytes in base64. What a stranger
wrote as `base64:` and is none stays as it is. Beside the headers there may be:

- `millrace-key`: the record's key, written like a header's value
- `millrace-time`: its time in milliseconds
- `millrace-null`: the value is absent, not empty
- `millrace-name`: a header whose name can't be one, both parts as `base64:`, with a comma between

Properties that MQTT itself names are headers that begin with `mqtt.` and travel on as such; what a
message met on its way (`mqtt.topic`, `mqtt.redelivered`, `mqtt.retained`) does not.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from millrace.errors import OperationFailed
from millrace.ports import Record

KEY: Final = "millrace-key"
TIME: Final = "millrace-time"
NULL: Final = "millrace-null"
NAME: Final = "millrace-name"
_OURS: Final = frozenset({KEY, TIME, NULL, NAME})
_CODED: Final = "base64:"
LONGEST: Final = 65_535
#: Where a message of a subscription with wildcards came from.
TOPIC_HEADER: Final = "mqtt.topic"
#: The broker had sent it before: it may be there twice.
REDELIVERED_HEADER: Final = "mqtt.redelivered"
#: It was written before we subscribed, and kept.
RETAINED_HEADER: Final = "mqtt.retained"
MET_HEADERS: Final = frozenset({TOPIC_HEADER, REDELIVERED_HEADER, RETAINED_HEADER})
#: Headers that are properties of their own in MQTT 5: texts, bytes and numbers.
CONTENT_TYPE: Final = "mqtt.content-type"
RESPONSE_TOPIC: Final = "mqtt.response-topic"
CORRELATION: Final = "mqtt.correlation"
EXPIRY: Final = "mqtt.expiry"
TEXT_FORMAT: Final = "mqtt.format"
NAMED: Final = (CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION, EXPIRY, TEXT_FORMAT)
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ufeff\ufdd0-\ufdef\ufffe\uffff]")
_BEYOND: Final = 0xFFFF


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it came."""

    topic: str
    payload: bytes
    qos: int = 0
    id: int = 0
    redelivered: bool = False
    retained: bool = False
    pairs: tuple[tuple[str, str], ...] = ()
    #: Properties that MQTT names, by the names of our headers.
    named: tuple[tuple[str, bytes], ...] = ()


def pairs_of(record: Record) -> list[tuple[str, str]]:
    """Return the user properties of a record; raises where one is longer than MQTT takes."""
    pairs = []
    if record.key is not None:
        pairs.append((KEY, _written(record.key)))
    if record.time is not None:
        pairs.append((TIME, str(record.time)))
    if record.value is None:
        pairs.append((NULL, "1"))
    for name, value in record.headers:
        if name in MET_HEADERS or name in NAMED:
            continue
        if not name or name in _OURS or not _is_plain(name):
            pairs.append((NAME, f"{_coded(name.encode())},{_coded(value)}"))
        else:
            pairs.append((name, _written(value)))
    for name, text in pairs:
        if max(len(name.encode()), len(text.encode())) > LONGEST:
            raise OperationFailed(
                "too-large",
                f"{'the key' if name == KEY else f'header {name[:80]!r}'} is longer than a "
                f"property of MQTT",
                f"keep it below {LONGEST * 3 // 4} bytes, or put it into the value",
            )
    return pairs


def named_of(record: Record) -> dict[str, bytes]:
    """Return the headers of a record that are properties of MQTT's own."""
    return {name: value for name, value in record.headers if name in NAMED}


def record_of(message: Message, now: int, wildcards: bool) -> Record:
    """Return the record of a message that came now (in ms); of wildcards with its topic."""
    key: bytes | None = None
    time, value = now, message.payload or b""
    headers: list[tuple[str, bytes]] = []
    absent = False
    for name, text in message.pairs:
        if name not in _OURS:
            headers.append((name, _read(text)))
        elif name == KEY:
            key = _read(text)
        elif name == TIME:
            time = int(text) if text.isascii() and text.lstrip("-").isdigit() else now
        elif name == NULL:
            absent = not value
        else:
            headers.extend(_named_header(text))
    headers += message.named
    if wildcards:
        headers.append((TOPIC_HEADER, message.topic.encode()))
    if message.redelivered:
        headers.append((REDELIVERED_HEADER, b"1"))
    if message.retained:
        headers.append((RETAINED_HEADER, b"1"))
    return Record(None if absent else value, key, tuple(headers), 0, -1, time)


def _named_header(text: str) -> Iterable[tuple[str, bytes]]:
    name, comma, value = text.partition(",")
    if comma and name.startswith(_CODED) and value.startswith(_CODED):
        yield _read(name).decode("utf-8", "replace"), _read(value)
    else:
        yield NAME, text.encode()


def _is_plain(text: str) -> bool:
    """Whether a text passes every client as it is."""
    return (
        not text.startswith(_CODED)
        and _UNSAFE.search(text) is None
        and not any(ord(letter) > _BEYOND and ord(letter) & 0xFFFE == 0xFFFE for letter in text)
    )


def _written(value: bytes) -> str:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return _coded(value)
    return text if _is_plain(text) else _coded(value)


def _coded(value: bytes) -> str:
    return _CODED + base64.b64encode(value).decode("ascii")


def _read(text: str) -> bytes:
    if text.startswith(_CODED):
        try:
            return base64.b64decode(text[len(_CODED) :], validate=True)
        except binascii.Error:
            pass
    return text.encode("utf-8")
