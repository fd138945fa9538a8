"""Sends messages, or notes when they arrive; each a process of its own, over MQTT or Kafka.

`python -m bench.crossing.load send WHERE TOPIC RATE FIRST COUNT` prints when the first one was
meant to leave; a rate of 0 is as fast as the broker acknowledges. `... receive WHERE TOPIC FIRST
COUNT FILE LIMIT` says `ready`, then writes for each number when it was seen. WHERE is `mqtt:FOLDER`
of a managed broker, or `kafka:ADDRESS`. Times are those of the machine's monotonic clock.
"""

from __future__ import annotations

import json
import re
import sys
import time
import uuid
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from confluent_kafka import Consumer, Producer, TopicPartition
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from millrace.brokers.mqtt import ManagedMqtt

SIZE = 1_000
#: So many messages are not acknowledged at most.
WINDOW = 1_000
LIMIT = 120.0
_NUMBER = re.compile(rb'"n": ?(\d+)')


def message(number: int) -> bytes:
    """Return a message of 1,000 bytes that tells its number."""
    head = f'{{"n": {number}, "pad": "'
    return f'{head}{"x" * (SIZE - len(head) - 2)}"}}'.encode()


def connected(place: Path, **given: Any) -> Client:
    """Return a client of paho's that a managed broker has let in; it is not driven yet."""
    settings = ManagedMqtt.settings_at(place)
    if settings is None:
        problem = f"no broker runs in {place}"
        raise RuntimeError(problem)
    address = urlsplit(settings["address"])
    client = Client(CallbackAPIVersion.VERSION2, **given)
    client.username_pw_set(settings["username"], settings["password"])
    client.max_inflight_messages_set(0)
    client.connect(address.hostname or "", address.port or 1883)
    return client


class Sender(Protocol):
    """Sends messages to a topic."""

    @property
    def waiting(self) -> int:
        """How many were not acknowledged."""
        ...

    def send(self, value: bytes) -> None:
        """Put a message on its way."""
        ...


class MqttSender:
    """Sends with QoS 1."""

    def __init__(self, place: Path, topic: str) -> None:
        self._topic = topic
        self._sent = self._heard = 0
        self._client = connected(place)
        self._client.on_publish = self._published
        self._client.loop_start()

    @property
    def waiting(self) -> int:
        """How many were not acknowledged."""
        return self._sent - self._heard

    def _published(self, *_: Any) -> None:
        self._heard += 1

    def send(self, value: bytes) -> None:
        """Put a message on its way."""
        self._sent += 1
        self._client.publish(self._topic, value, qos=1)


class KafkaSender:
    """Sends and waits for the broker's acknowledgements, as MQTT's does."""

    def __init__(self, boot: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": boot, "linger.ms": 0, "acks": "all"})
        self._producer.list_topics(topic, timeout=30)

    @property
    def waiting(self) -> int:
        """How many were not acknowledged."""
        self._producer.poll(0)
        return len(self._producer)

    def send(self, value: bytes) -> None:
        """Put a message on its way."""
        self._producer.produce(self._topic, value, partition=0)
        self._producer.poll(0)


def send(sender: Sender, rate: float, first: int, count: int) -> None:
    """Send, open loop where there is a rate: one that is late changes nothing for the others."""
    values = [message(number) for number in range(first, first + count)]
    start = time.monotonic() + 0.2
    late = 0.0
    for place, value in enumerate(values):
        due = start + place / rate if rate else start
        if (wait := due - time.monotonic()) > 0:
            time.sleep(wait)
        while not rate and sender.waiting >= WINDOW:
            time.sleep(0.0005)
        sender.send(value)
        late = max(late, time.monotonic() - due)
    until = time.monotonic() + LIMIT
    while sender.waiting and time.monotonic() < until:
        time.sleep(0.005)
    over = time.monotonic()
    print(json.dumps({"start": start, "late": late, "over": over}), flush=True)


def _from_mqtt(place: Path, topic: str, ready: Callable[[], None]) -> Iterator[tuple[float, bytes]]:
    """Messages with the time at which each was handed over."""
    came: list[tuple[float, bytes]] = []
    client = connected(place)
    client.on_message = lambda _, __, heard: came.append((time.monotonic(), bytes(heard.payload)))
    client.on_subscribe = lambda *_: ready()
    client.subscribe(topic, qos=1)
    while True:
        client.loop(0.1)
        yield from came
        came.clear()
        yield 0.0, b""


def _from_kafka(boot: str, topic: str, ready: Callable[[], None]) -> Iterator[tuple[float, bytes]]:
    settings = {"bootstrap.servers": boot, "group.id": str(uuid.uuid4()), "fetch.wait.max.ms": 10}
    consumer = Consumer(settings)
    part = TopicPartition(topic, 0)
    part.offset = consumer.get_watermark_offsets(part, timeout=30)[1]
    consumer.assign([part])
    consumer.poll(0.5)
    ready()
    while True:
        heard = consumer.poll(0.1)
        if heard is not None and not heard.error():
            yield time.monotonic(), heard.value() or b""
        else:
            yield 0.0, b""


def receive(
    came: Iterator[tuple[float, bytes]], first: int, count: int, file: Path, limit: float
) -> None:
    """Note when each number is seen first, until all were seen or the time is over."""
    seen, missing, doubles = array("d", bytes(8 * count)), count, 0
    until = time.monotonic() + limit
    while missing and time.monotonic() < until:
        now, value = next(came)
        found = _NUMBER.search(value)
        place = int(found[1]) - first if found else -1
        if 0 <= place < count:
            if seen[place]:
                doubles += 1
            else:
                seen[place] = now
                missing -= 1
    file.write_text(json.dumps({"seen": seen.tolist(), "doubles": doubles}))


def main() -> None:
    """Do one of the two."""
    what, where, topic, *rest = sys.argv[1:]
    kind, _, place = where.partition(":")
    mqtt = kind == "mqtt"
    if what == "send":
        rate, first, count = rest
        sender: Sender = MqttSender(Path(place), topic) if mqtt else KafkaSender(place, topic)
        send(sender, float(rate), int(first), int(count))
        return

    def ready() -> None:
        print("ready", flush=True)

    start, many, file, limit = rest
    came = _from_mqtt(Path(place), topic, ready) if mqtt else _from_kafka(place, topic, ready)
    receive(came, int(start), int(many), Path(file), float(limit))


if __name__ == "__main__":
    main()
