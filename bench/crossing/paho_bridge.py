"""A bridge as one writes it by hand: `... bench.crossing.paho_bridge FOLDER SOURCE SINK FILE`.

It subscribes, appends what came to a file and has that on the disk once for all that was there,
publishes it with QoS 1, and acknowledges it. It says `ready` when the subscription is there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from paho.mqtt.client import MQTTMessage

from bench.crossing.load import connected

#: One group has so many messages at most.
MOST = 1_000


def taken(queue: SimpleQueue[MQTTMessage]) -> list[MQTTMessage]:
    """Return what is there, at least one."""
    found = [queue.get()]
    try:
        while len(found) < MOST:
            found.append(queue.get_nowait())
    except Empty:
        pass
    return found


def main() -> None:
    """Go on until it is ended."""
    place, source, sink, file = sys.argv[1:]
    queue: SimpleQueue[MQTTMessage] = SimpleQueue()
    client = connected(
        Path(place), client_id=f"bridge-{sink}", clean_session=False, manual_ack=True
    )

    def came(_: Any, __: Any, heard: MQTTMessage) -> None:
        queue.put(heard)

    client.on_message = came
    client.on_subscribe = lambda *_: print("ready", flush=True)
    client.subscribe(source, qos=1)
    client.loop_start()
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        group = taken(queue)
        os.write(descriptor, b"".join(heard.payload for heard in group))
        os.fdatasync(descriptor)
        for heard in group:
            client.publish(sink, heard.payload, qos=1)
        for heard in group:
            client.ack(heard.mid, heard.qos)


if __name__ == "__main__":
    main()
