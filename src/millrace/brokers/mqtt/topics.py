"""Names of topics: which can be written, which can be read, and what MQTT can't do for a stream."""

from __future__ import annotations

from typing import Final

from millrace.errors import OperationFailed
from millrace.model.stream import WITHOUT_LOG, Stream

LONGEST: Final = 65_535
#: The largest payload that a packet of MQTT holds, less some room for its head.
LARGEST: Final = 268_435_455 - 1_000_000


def has_wildcards(topic: str) -> bool:
    """Whether a topic stands for several."""
    return "+" in topic or "#" in topic


def check_written(topic: str) -> None:
    """Raise where nothing can be written to a topic of this name."""
    _check_text(topic)
    if has_wildcards(topic):
        raise OperationFailed(
            "bad-topic",
            f"{topic!r} has wildcards and can't be written",
            "write to one topic; + and # are for reading",
        )


def check_read(topic: str) -> None:
    """Raise where a topic can't be read; + and # stand for many."""
    _check_text(topic)
    if not has_wildcards(topic):
        return
    levels = topic.split("/")
    if any(level not in ("+", "#") and has_wildcards(level) for level in levels) or (
        "#" in levels[:-1]
    ):
        raise OperationFailed(
            "bad-topic",
            f"{topic!r} is no filter of MQTT",
            "+ stands for one whole level, # for all that follow and comes last: a/+/c, a/#",
        )


def _check_text(topic: str) -> None:
    try:
        size = len(topic.encode("utf-8"))
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= LONGEST or "\0" in topic:
        raise OperationFailed(
            "bad-topic",
            f"{topic[:80]!r} can't be the name of a topic",
            f"use text of 1 to {LONGEST} bytes in UTF-8, without the character 0",
        )


def refuse_unkept(stream: Stream) -> None:
    """Raise for a stream that asks for what MQTT can't do."""
    for name in stream.needs_log:
        raise OperationFailed(
            "not-with-mqtt",
            f"stream {stream.name}: MQTT keeps no log, so {name} can't be had",
            f"{WITHOUT_LOG[name]}, or carry the stream by kafka",
        )
    if stream.max_record is not None and stream.max_record.bytes > LARGEST:
        raise OperationFailed(
            "not-with-mqtt",
            f"stream {stream.name}: no message of MQTT is larger than {LARGEST} bytes",
            f"write max_record: {LARGEST} B or less",
        )
