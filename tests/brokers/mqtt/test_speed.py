"""The receiver beside a plain subscriber of paho that syncs a file for each group of messages."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from millrace.brokers.mqtt import forget
from tests.brokers.mqtt.receiving import config_of, holds, numbers, program
from tests.brokers.mqtt.waiting import LIMIT

COUNT = 3_000
WRITER = """
import json, sys, time
from millrace.brokers.mqtt import MqttLog
from millrace.ports import Record
settings, topic, count = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
begun = time.time()
MqttLog(settings).write(topic, (Record(b"%d %s" % (n, b"x" * 993)) for n in range(count)))
print(begun)
"""
PLAIN = """
import json, os, sys, time
import paho.mqtt.client as mqtt
settings, topic, count = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
host, port = settings["address"].removeprefix("mqtt://").split(":")
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, "", protocol=mqtt.MQTTv5, manual_ack=True)
client.username_pw_set(settings["username"], settings["password"])
group, done = [], 0
client.on_message = lambda _, __, message: group.append(message)
client.on_subscribe = lambda *_: print("ready", flush=True)
client.connect(host, int(port))
client.subscribe(topic, 1)
with open(sys.argv[4], "wb") as file:
    while done < count:
        before = len(group)
        client.loop(0.01)
        if len(group) >= 100 or len(group) == before > 0:
            file.write(b"".join(message.payload for message in group))
            file.flush()
            os.fsync(file.fileno())
            for message in group:
                client.ack(message.mid, 1)
            done += len(group)
            group.clear()
print(time.time(), flush=True)
"""


def write(settings: dict[str, str], topic: str) -> float:
    """Write from a process of its own; returns when it began."""
    command = [sys.executable, "-c", WRITER, json.dumps(settings), topic, str(COUNT)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT)
    return float(done.stdout)


def of_receiver(settings: dict[str, str], spool: Path) -> float:
    with program(config_of(settings, "speed", spool, "speed")):
        begun = write(settings, "speed")
        assert holds(spool, COUNT)
        rate = COUNT / (time.time() - begun)
    assert numbers(spool) == list(range(COUNT))
    forget(settings, "speed")
    return rate


def of_plain(settings: dict[str, str], file: Path) -> float:
    command = [sys.executable, "-c", PLAIN, json.dumps(settings), "plain", str(COUNT), str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as plain:
        assert plain.stdout is not None
        assert plain.stdout.readline() == "ready\n"
        begun = write(settings, "plain")
        return COUNT / (float(plain.stdout.readline()) - begun)


def test_the_receiver_is_about_as_fast_as_a_plain_subscriber(
    settings: dict[str, str], tmp_path: Path
) -> None:
    pairs = [
        (of_receiver(settings, tmp_path / f"spool-{turn}"), of_plain(settings, tmp_path / "file"))
        for turn in range(2)
    ]
    for ours, theirs in pairs:
        sys.stdout.write(f"receiver {ours:.0f} msg/s, plain paho {theirs:.0f} msg/s\n")
    assert max(ours for ours, _ in pairs) > 0.6 * max(theirs for _, theirs in pairs)
