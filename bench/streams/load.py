"""Sends records at a fixed rate, or notes when they arrive; each a process of its own.

`python -m bench.streams.load send BOOT TOPIC RATE SECONDS FIRST KIND` prints when the first one was
meant to leave. `... receive BOOT TOPIC FIRST COUNT FILE LIMIT` says `ready`, then writes for each
number when it was seen. Times are those of the machine's monotonic clock, which all its processes
share.
"""

from __future__ import annotations

import json
import re
import sys
import time
import uuid
from array import array
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.streams.topics import PARTITIONS, record, timed_record

_NUMBER = re.compile(rb'"id": ?(\d+)')


#: What is sent, by the kind of work.
MADE: dict[str, Callable[[int], bytes]] = {
    "sql": lambda number: record(number, 88.5),
    "updates": timed_record,
}


def send(
    boot: str, topic: str, rate: float, seconds: float, first: int, made: Callable[[int], bytes]
) -> None:
    """Send, open loop: a record that is late changes nothing for those after it."""
    producer = Producer({"bootstrap.servers": boot, "linger.ms": 0, "acks": "all"})
    producer.list_topics(topic, timeout=30)
    start = time.monotonic() + 0.2
    late = 0.0
    for place in range(int(rate * seconds)):
        due = start + place / rate
        if (wait := due - time.monotonic()) > 0:
            time.sleep(wait)
        number = first + place
        producer.produce(topic, made(number), key=b"%d" % number, partition=place % PARTITIONS)
        producer.poll(0)
        late = max(late, time.monotonic() - due)
    left = producer.flush(30)
    print(json.dumps({"start": start, "late": late, "unsent": left}), flush=True)


def receive(boot: str, topic: str, first: int, count: int, file: Path, limit: float) -> None:
    """Note when each number is seen first, until all were seen or the time is over."""
    settings = {"bootstrap.servers": boot, "group.id": str(uuid.uuid4()), "fetch.wait.max.ms": 10}
    consumer = Consumer(settings)
    parts = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    ends = [consumer.get_watermark_offsets(part, timeout=30) for part in parts]
    for part, end in zip(parts, ends, strict=True):
        part.offset = end[1]
    consumer.assign(parts)
    consumer.poll(0.5)
    print("ready", flush=True)
    seen = array("d", bytes(8 * count))
    missing, doubles = count, 0
    until = time.monotonic() + limit
    while missing and time.monotonic() < until:
        message = consumer.poll(0.1)
        if message is None or message.error():
            continue
        now = time.monotonic()
        found = _NUMBER.search(message.value() or b"")
        place = int(found[1]) - first if found else -1
        if 0 <= place < count:
            if seen[place]:
                doubles += 1
            else:
                seen[place] = now
                missing -= 1
    consumer.close()
    file.write_text(json.dumps({"seen": seen.tolist(), "doubles": doubles}))


def main() -> None:
    """Do one of the two."""
    what, boot, topic, *rest = sys.argv[1:]
    if what == "send":
        rate, seconds, first, kind = rest
        send(boot, topic, float(rate), float(seconds), int(first), MADE[kind])
    else:
        start, count, file, limit = rest
        receive(boot, topic, int(start), int(count), Path(file), float(limit))


if __name__ == "__main__":
    main()
