"""Consumers of a broker, which may be kept for the next who reads.

To make one and to connect it takes longer than to read what is little: a driver that starts a
hundred jobs asks their sinks a hundred times.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock, Timer

from confluent_kafka import Consumer, KafkaException

from millrace.brokers.kafka.failures import Complaints

#: How long one is kept; a broker may be gone by then.
KEPT_SECONDS = 20.0
LARGEST = 256 * 1024 * 1024


@dataclass(slots=True, eq=False)
class Reader:
    """A consumer without partitions, and what it says of its connections."""

    consumer: Consumer
    complaints: Complaints
    #: Ends it while it is kept.
    end: Timer | None = field(default=None)


class Readers:
    """Gives readers, each to one at a time; up to `keep` wait for the next."""

    def __init__(self, settings: Mapping[str, str], keep: int = 0) -> None:
        self._settings = dict(settings)
        self._keep = keep
        self._kept: list[Reader] = []
        self._lock = Lock()

    def kept(self) -> Reader | None:
        """Return one that was kept; it may have lost the broker since."""
        with self._lock:
            reader = self._kept.pop() if self._kept else None
        if reader is not None and reader.end is not None:
            reader.end.cancel()
        return reader

    def give_back(self, reader: Reader) -> None:
        """Keep one that did what it was asked for, or close it."""
        try:
            reader.consumer.unassign()
        except KafkaException:  # what it was asked for is done
            reader.consumer.close()
            return
        reader.end = Timer(KEPT_SECONDS, self._end, (reader,))
        reader.end.daemon = True
        with self._lock:
            kept = len(self._kept) < self._keep
            if kept:
                self._kept.append(reader)
                reader.end.start()
        if not kept:
            reader.consumer.close()

    def _end(self, reader: Reader) -> None:
        """Close one that nobody took."""
        with self._lock:
            if reader not in self._kept:
                return
            self._kept.remove(reader)
        reader.consumer.close()

    def made(self) -> Reader:
        """Return a new one."""
        complaints = Complaints()
        settings = {
            **self._settings,
            "group.id": f"millrace-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            "fetch.message.max.bytes": 16 * 1024 * 1024,
            "receive.message.max.bytes": 2 * LARGEST,
            "fetch.max.bytes": LARGEST,
            "log_level": 2,
            "error_cb": complaints,
        }
        return Reader(Consumer(settings), complaints)
