"""The same work without any engine: `python loop.py BOOT SOURCE SINK`, until it is ended."""

from __future__ import annotations

import json
import sys

from confluent_kafka import Consumer, Producer


def main() -> None:
    """Read, parse, filter, project and write in one process."""
    boot, source, sink = sys.argv[1:4]
    producer = Producer(
        {"bootstrap.servers": boot, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
    )
    consumer = Consumer(
        {"bootstrap.servers": boot, "group.id": f"loop-{sink}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([source])
    print("ready", flush=True)
    while True:
        for message in consumer.consume(10_000, 0.1):
            r = json.loads(message.value() or b"{}")
            if r["speed"] > 50:
                out = {"id": r["id"], "speed": r["speed"], "road": r["road"]}
                producer.produce(sink, json.dumps(out).encode(), key=message.key())
        producer.poll(0)


if __name__ == "__main__":
    main()
