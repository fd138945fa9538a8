"""Streams as topics: a stream's declared settings and a topic's, compared and translated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from millrace.errors import OperationFailed, nearest
from millrace.model.quantity import Duration, Size
from millrace.model.stream import Stream
from millrace.ports import StreamStatus

#: What a batch needs beside a record's value: headers, key, framing.
OVERHEAD: Final = 64 * 1024
RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"
MAX_BYTES: Final = "max.message.bytes"
CLEANUP: Final = "cleanup.policy"
REPLICATION: Final = "replication.factor"
#: Settings of a topic that a stream may give by Kafka's own names.
ALLOWED: Final = frozenset(
    {
        "compression.type",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "max.compaction.lag.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        REPLICATION,
        "segment.bytes",
        "segment.ms",
        "unclean.leader.election.enable",
    }
)


def topic_settings(stream: Stream) -> dict[str, str]:
    """Return a topic's settings, as far as the stream says something."""
    settings: dict[str, str] = {}
    if isinstance(stream.retention, Duration):
        settings[RETENTION_MS] = str(stream.retention.nanoseconds // 1_000_000)
    elif isinstance(stream.retention, Size):
        settings[RETENTION_BYTES] = str(stream.retention.bytes)
    if stream.max_record is not None:
        settings[MAX_BYTES] = str(stream.max_record.bytes + OVERHEAD)
    if stream.compact:
        # Kafka removes by age or size only where the policy says delete.
        settings[CLEANUP] = "compact" if stream.retention is None else "compact,delete"
    for name, value in (stream.options or {}).items():
        if name not in ALLOWED:
            near = nearest(name, ALLOWED)
            raise OperationFailed(
                "setting-not-allowed",
                f"stream {stream.name}: {name!r} is not a setting of topics that may be set",
                f"did you mean {near!r}?" if near else f"known are {', '.join(sorted(ALLOWED))}",
            )
        settings[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return settings


def stream_status(partitions: int, settings: Mapping[str, str]) -> StreamStatus:
    """Return what a topic with these settings of its own is as a stream."""

    def number(name: str) -> int | None:
        return int(settings[name]) if name in settings else None

    most = number(MAX_BYTES)
    return StreamStatus(
        partitions,
        number(RETENTION_MS),
        number(RETENTION_BYTES),
        None if most is None else most - OVERHEAD,
        "compact" in settings.get(CLEANUP, "").split(","),
    )
