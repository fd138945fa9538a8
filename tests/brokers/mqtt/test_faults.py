"""Brokers and receivers that are killed, restarted, cut off: QoS 1 loses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from millrace.brokers.mqtt import ManagedMqtt, MqttLog, forget
from millrace.brokers.mqtt.failures import refused
from millrace.brokers.mqtt.publisher import Publisher
from millrace.brokers.mqtt.receiver import EXIT_TAKEN
from millrace.brokers.mqtt.settings import parsed
from millrace.errors import OperationFailed
from millrace.machine.process import session_members
from millrace.ports import Record
from tests.brokers.mqtt.receiving import (
    Running,
    config_of,
    holds,
    numbers,
    program,
    receiving,
    records,
)
from tests.brokers.mqtt.waiting import LIMIT, eventually
from tests.coordinator.between import Between, between


class Load(threading.Thread):
    """Writes numbered records in small batches until it is told to end; knows what was taken."""

    def __init__(self, settings: Mapping[str, str], topic: str, pause: float = 0.005) -> None:
        super().__init__()
        self.taken = 0
        self.failed: OperationFailed | None = None
        self._settings, self._topic, self._pause = parsed(settings), topic, pause
        self._over = threading.Event()

    def run(self) -> None:
        publisher = Publisher(self._settings)
        try:
            while not self._over.wait(self._pause):
                some = [Record(b"%d %s" % (self.taken + n, b"x" * 200)) for n in range(20)]
                publisher.write(self._topic, some, self._settings.qos, retain=False)
                self.taken += len(some)
        except OperationFailed as failure:
            self.failed = failure
        finally:
            publisher.close()

    def reaches(self, count: int) -> bool:
        return eventually(lambda: self.taken >= count or self.failed is not None)

    def end(self) -> int:
        """Stop, and return how many records the broker has acknowledged."""
        self._over.set()
        self.join(LIMIT * 2)
        assert self.failed is None, self.failed
        return self.taken


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ManagedMqtt]:
    """Run a Mosquitto that a test may kill."""
    made = ManagedMqtt(tmp_path / "mosquitto")
    made.start()
    yield made
    made.stop()


def kill(broker: ManagedMqtt, how: signal.Signals) -> None:
    assert broker.pid is not None
    os.kill(broker.pid, how)
    assert eventually(lambda: not broker.alive)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_broker_loses_nothing_while_the_receiver_is_there(
    broker: ManagedMqtt, spool: Path, how: signal.Signals
) -> None:
    """What Mosquitto told a writer to have it has handed on, if the receiver keeps up."""
    settings = broker.clients()["mqtt"]
    with receiving(config_of(settings, "load", spool)) as running:
        load = Load(settings, "load")
        load.start()
        for turn in range(1, 4):
            assert load.reaches(turn * 400)
            assert eventually(lambda: max(numbers(spool)) > load.taken - 100)  # it keeps up
            kill(broker, how)
            assert eventually(lambda: running.receiver.counts["connected_since"] is None)
            broker.start()
            assert eventually(lambda: running.receiver.counts["connected_since"] is not None)
        assert load.reaches(load.taken + 400)
        taken = load.end()
        assert eventually(lambda: set(range(taken)) <= set(numbers(spool)))
        running.end()
        counts = running.receiver.counts
    came = Counter(numbers(spool))
    sys.stdout.write(f"{how.name}: {taken} taken, {sum(came.values()) - len(came)} twice\n")
    assert counts["reconnects"] >= 3
    assert counts["last_error"]


def test_a_message_that_waits_survives_a_broker_that_is_told_to_end(
    broker: ManagedMqtt, spool: Path
) -> None:
    """And one that is killed, when a second has passed: its state is written by then."""
    settings = broker.clients()["mqtt"]
    config = config_of(settings, "waits", spool)
    with receiving(config):
        pass
    saved = broker._server.place / "data" / "mosquitto.db"
    for turn, how in enumerate((signal.SIGTERM, signal.SIGKILL)):
        some = range(turn * 30, turn * 30 + 30)
        before = saved.stat().st_mtime_ns if saved.exists() else 0
        MqttLog(settings).write("waits", [Record(b"%d" % n) for n in some])
        if how is signal.SIGKILL:
            assert eventually(partial(_is_newer, saved, before))
        kill(broker, how)
        broker.start()
    with receiving(config) as running:
        assert holds(spool, 60)
        assert running.receiver.counts["sessions_lost"] == 0
    assert numbers(spool) == list(range(60))


def _is_newer(file: Path, moment: int) -> bool:
    return file.stat().st_mtime_ns > moment


@pytest.fixture
def proxy(mosquitto: ManagedMqtt) -> Iterator[Between]:
    with between(int(mosquitto.status().address.rpartition(":")[2])) as made:
        yield made


def _has_lost(running: Running, connections: int) -> bool:
    reconnects: int = running.receiver.counts["reconnects"]
    return reconnects >= connections


def through(settings: dict[str, str], proxy: Between, **more: str) -> dict[str, str]:
    return {**settings, "address": proxy.url.replace("http", "mqtt"), **more}


@pytest.mark.parametrize("qos", ["1", "2"])
def test_a_connection_that_is_cut_loses_nothing(
    settings: dict[str, str], proxy: Between, spool: Path, qos: str
) -> None:
    """The receiver's and the writer's; of QoS 2 nothing comes twice."""
    given, topic = through(settings, proxy, qos=qos), f"cut/{qos}"
    with receiving(config_of(given, topic, spool, topic)) as running:
        load = Load(given, topic)
        load.start()
        for turn in range(1, 4):
            assert load.reaches(turn * 200)
            assert eventually(lambda: running.receiver.counts["connected_since"] is not None)
            proxy.cut = True
            assert eventually(partial(_has_lost, running, turn))
            proxy.cut = False
        assert load.reaches(load.taken + 200)
        taken = load.end()
        assert eventually(lambda: set(range(taken)) <= set(numbers(spool)))
        running.end()
    came = Counter(numbers(spool))
    twice = sum(came.values()) - len(came)
    sys.stdout.write(f"QoS {qos}: {taken} taken, {twice} twice\n")
    if qos == "2":
        assert twice == 0
    forget(settings, topic)


def test_a_half_open_connection_is_found(
    settings: dict[str, str], proxy: Between, spool: Path
) -> None:
    """Nothing comes and nobody says why: the receiver asks, and connects anew."""
    given = through(settings, proxy, keepalive="1")
    with receiving(config_of(given, "frozen", spool, "frozen")) as running:
        proxy.freeze()
        begun = time.monotonic()
        MqttLog(settings).write("frozen", [Record(b"%d" % n) for n in range(10)])
        assert holds(spool, 10)
        assert time.monotonic() - begun < 8
        running.end()
        assert running.receiver.counts["reconnects"] == 1
        assert set(numbers(spool)) == set(range(10))
    forget(settings, "frozen")


@pytest.mark.parametrize(
    ("place", "stored"),
    [
        ("spool.write#2", False),
        ("spool.sync#2", True),
        ("spool.synced#2", True),
        ("mqtt.acknowledge#2", True),
    ],
)
@pytest.mark.parametrize("qos", ["1", "2"])
def test_a_killed_receiver_loses_nothing_and_flags_what_comes_again(
    settings: dict[str, str], spool: Path, place: str, stored: bool, qos: str
) -> None:
    """Before the write, between write and sync, after it, and before the acknowledgement."""
    given, name = {**settings, "qos": qos}, f"killed-{place}-{qos}"
    config = config_of(given, name.replace("#", "."), spool, name)
    with program(config, failpoint=place) as running:
        MqttLog(given).write(config.topic, [Record(b"0")])
        assert holds(spool, 1)
        MqttLog(given).write(config.topic, [Record(b"%d" % n) for n in range(1, 11)])
        assert running.ended() == -signal.SIGKILL
    with program(config) as running:
        MqttLog(given).write(config.topic, [Record(b"11")])
        assert eventually(lambda: 11 in numbers(spool))
    came = Counter(numbers(spool))
    assert set(came) == set(range(12))
    again = [n for n, count in came.items() if count > 1]
    flags = [record.header("mqtt.redelivered") for record in records(spool)]
    values = numbers(spool)
    if qos == "2":
        assert again == []
    else:
        assert bool(again) is stored
        for number in again:
            at = [place for place, value in enumerate(values) if value == number]
            assert [flags[place] for place in at] == [None, b"1"]
    forget(given, name)


def test_a_broker_that_tells_of_another_client_is_believed() -> None:
    failure = refused(parsed({"address": "a"}), 0x8E, "session taken over")
    assert failure.code == "id-taken"
    assert not failure.transient


def test_another_client_with_the_same_id_ends_the_first_and_no_storm_begins(
    settings: dict[str, str], spool: Path, tmp_path: Path
) -> None:
    """Mosquitto 2.0.11 tells neither of them: it lets one in and ends the other."""
    given, name = settings, "twin"
    other = tmp_path / "other"
    with (
        program(config_of(given, "twin", spool, name)) as first,
        program(config_of(given, "twin", other, name)) as second,
    ):
        assert eventually(lambda: not (first.child.alive and second.child.alive))
        loser, winner = (second, first) if first.child.alive else (first, second)
        assert loser.ended() == EXIT_TAKEN
        assert "running twice" in loser.text
        MqttLog(given).write("twin", [Record(b"7")])
        assert eventually(lambda: 7 in numbers(Path(winner.config.spool)))
        assert winner.child.alive
        assert winner.counts.reconnects <= 8
    forget(given, name)


PARENT = """
import sys, time
from pathlib import Path
from millrace.machine import Child, leashed
from millrace.brokers.mqtt.receiver import command
child = Child.start(leashed(command(Path(sys.argv[1]))), Path(sys.argv[2]))
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_receiver_ends_with_its_parent(
    settings: dict[str, str], spool: Path, tmp_path: Path
) -> None:
    config = config_of(settings, "orphan", spool, "orphan")
    config.write(tmp_path / "config.json")
    started = [sys.executable, "-c", PARENT, str(tmp_path / "config.json"), str(tmp_path / "log")]
    parent = subprocess.Popen(started, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert eventually(lambda: "connected" in (tmp_path / "log").read_text())
    parent.kill()
    parent.communicate()
    assert eventually(lambda: session_members(pid) == [])
    forget(settings, "orphan")


def test_a_writer_gives_up_when_the_broker_stays_away(
    settings: dict[str, str], proxy: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.brokers.mqtt.publisher.PATIENCE", 1.0)

    def endless() -> Iterator[Record]:
        for n in range(1_000_000):
            if n == 500:
                proxy.cut = True
            yield Record(b"%d" % n)

    with pytest.raises(OperationFailed) as caught:
        MqttLog(through(settings, proxy)).write("away", endless())
    assert caught.value.code == "no-broker"
    assert caught.value.transient


def test_a_receiver_waits_for_a_broker_that_is_not_there_yet(
    broker: ManagedMqtt, spool: Path
) -> None:
    settings = broker.clients()["mqtt"]
    kill(broker, signal.SIGTERM)
    with program(config_of(settings, "later", spool), connected=False) as running:
        assert eventually(lambda: "no MQTT broker answers" in running.text)
        broker.start()
        assert eventually(lambda: running.counts.connected_since is not None)
        MqttLog(settings).write("later", [Record(b"1")])
        assert holds(spool, 1)


def test_a_lost_session_is_counted(settings: dict[str, str], spool: Path) -> None:
    """The broker forgot us while we were there: what it held is lost, and that is told."""
    config = config_of(settings, "lost", spool, "lost")
    with receiving(config) as running:
        forget(settings, "lost")
        assert eventually(lambda: running.receiver.counts["sessions_lost"] == 1)
        # It is known before it has subscribed again: only then it gets what is sent.
        assert eventually(lambda: running.receiver.counts["connected_since"] is not None)
        MqttLog(settings).write("lost", [Record(b"1")])
        assert holds(spool, 1)
    forget(settings, "lost")
