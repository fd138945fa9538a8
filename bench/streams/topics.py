"""The records of the benchmark, and the topics that hold them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

KEYS = 1000
PARTITIONS = 2
#: Clients outlive a broker that ends before them, and need not complain.
QUIET = {"log_level": 2, "reconnect.backoff.max.ms": 200}
_FIRST_TIME = 1_700_000_000_000
#: Milliseconds between two records' own times.
SPACING = 1
Made = Callable[[int], bytes]


def record(number: int, speed: float | None = None) -> bytes:
    """Return a record of about 100 bytes; without a speed, half of them are above 50."""
    chosen = number * 37 % 1000 / 10 + 0.05 if speed is None else speed
    return json.dumps(
        {
            "id": number,
            "speed": chosen,
            "lat": 45.1,
            "lon": 9.2,
            "ts": _FIRST_TIME + number,
            "road": f"A4-km-{number % KEYS}",
        }
    ).encode()


def timed_record(number: int) -> bytes:
    """Return a record of about 100 bytes with a time of its own, a millisecond after the last."""
    at = datetime.fromtimestamp((_FIRST_TIME + number * SPACING) / 1000, UTC)
    return json.dumps(
        {
            "id": number,
            "speed": number * 37 % 1000 / 10 + 0.05,
            "at": f"{at:%FT%T}.{at.microsecond // 1000:03}Z",
            "road": f"A4-km-{number % KEYS}",
        }
    ).encode()


def closing_record() -> bytes:
    """Return a record that lies far behind all others, so that their windows close."""
    return b'{"id": -1, "speed": 0.0, "at": "2100-01-01T00:00:00.000Z", "road": "end"}'


def passing(count: int) -> int:
    """Return how many of the first records are above 50."""
    return sum(1 for number in range(count) if number * 37 % 1000 / 10 + 0.05 > 50)


def fill(
    boot: str, topic: str, count: int, made: Made = record, after: Sequence[bytes] = ()
) -> None:
    """Write records, and last some to every partition; raises if the broker does not take all."""
    producer = Producer(
        {"bootstrap.servers": boot, "linger.ms": 20, "queue.buffering.max.messages": 2_000_000}
    )
    for number in range(count):
        key = number % KEYS
        producer.produce(topic, made(number), key=b"%d" % key, partition=key % PARTITIONS)
        if number % 10_000 == 0:
            producer.poll(0)
    for value in after:
        for partition in range(PARTITIONS):
            producer.produce(topic, value, key=b"end", partition=partition)
    if producer.flush(120):
        message = f"Kafka did not take all records of {topic}"
        raise TimeoutError(message)


def create(boot: str, topics: Sequence[str], partitions: int) -> None:
    """Make topics."""
    admin = AdminClient({"bootstrap.servers": boot, **QUIET})
    for future in admin.create_topics([NewTopic(t, partitions, 1) for t in topics]).values():
        future.result(30)


def send(boot: str, topic: str, value: bytes) -> None:
    """Write one record and return when it is there."""
    producer = Producer({"bootstrap.servers": boot, "linger.ms": 0, **QUIET})
    producer.produce(topic, value, key=b"k")
    if producer.flush(30):
        message = f"Kafka did not take a record of {topic}"
        raise TimeoutError(message)


@dataclass(frozen=True, slots=True)
class Arrival:
    """When the first and the last record were seen, and how many there were at the first look."""

    first: float
    at_first: int
    last: float


class End:
    """Counts the records of a topic by its end offsets, without reading them."""

    def __init__(self, boot: str, topic: str, partitions: int = PARTITIONS) -> None:
        group = f"end-{uuid.uuid4()}"
        self._settings = {"bootstrap.servers": boot, "group.id": group, **QUIET}
        self._consumer = Consumer(self._settings)
        self._parts = [TopicPartition(topic, number) for number in range(partitions)]
        self._topic = topic

    def count(self, limit: float = 30.0) -> int:
        """Return how many records there are; waits for a leader just after the topic was made.

        A client remembers for half a minute that a topic was not there, so another asks then.
        """
        until = time.monotonic() + limit
        while True:
            try:
                ends = [self._consumer.get_watermark_offsets(p, timeout=10) for p in self._parts]
                return sum(end[1] for end in ends)
            except KafkaException:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
                self._consumer.close()
                self._consumer = Consumer(self._settings)

    def wait(self, wanted: int, limit: float, check: Callable[[], None]) -> Arrival:
        """Wait for so many records; `check` is called now and then and may raise."""
        began = looked = time.monotonic()
        first, at_first = 0.0, 0
        while (now := time.monotonic()) - began < limit:
            found = self.count()
            now = time.monotonic()
            if found and not at_first:
                first, at_first = now, found
            if found >= wanted:
                return Arrival(first, at_first, now)
            if now - looked > 2:
                check()
                looked = now
            time.sleep(0.02)
        message = f"{self._topic} has {found} of {wanted} records after {limit:.0f} s"
        raise TimeoutError(message)

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()
