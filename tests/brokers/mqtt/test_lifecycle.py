"""A Mosquitto of our own: started, killed, started again; nothing is left, its state is kept."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.brokers.mqtt import ManagedMqtt, MqttLog
from millrace.brokers.mqtt import server as server_module
from millrace.brokers.mqtt.plugin import PLUGIN
from millrace.brokers.mqtt.server import listens
from millrace.errors import OperationFailed
from millrace.machine.process import end_session, session_members
from millrace.model.stream import Stream
from millrace.ports import Broker, BrokerOrder, Record
from tests.brokers.mqtt.waiting import eventually

KEPT = Stream("kept", options={"retain": True})


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Give a folder whose name is not plain; no broker of it is left at the end."""
    folder = tmp_path / "mühle no. 1" / "mqtt"
    yield folder
    if (folder / "broker.json").exists():
        left = session_members(json.loads((folder / "broker.json").read_text())["pid"])
        for pid in left:
            end_session(pid)
        assert left == []


def pid_of(broker: ManagedMqtt) -> int:
    assert broker.pid is not None
    return broker.pid


def retained(broker: ManagedMqtt, topic: str) -> list[bytes | None]:
    log = MqttLog(broker.clients()["mqtt"])
    try:
        return [record.value for record in log.read(topic, {0: 0}, {0: 1})]
    finally:
        log.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_one_comes_back_with_port_password_and_state(
    place: Path, how: signal.Signals
) -> None:
    broker = ManagedMqtt(place)
    assert not broker.status().up
    assert ManagedMqtt.settings_at(place) is None
    broker.start()
    try:
        broker.ensure(KEPT)
        broker.log.write("kept", [Record(b"last")])
        settings, pid = broker.clients()["mqtt"], pid_of(broker)
        assert ManagedMqtt.settings_at(place) == settings
        saved = place / "data" / "mosquitto.db"
        assert eventually(saved.exists)  # within a second, though there were few changes
        os.kill(pid, how)
        assert eventually(lambda: not broker.alive)
        assert not broker.status().up
        assert ManagedMqtt.settings_at(place) is None
        begun = time.monotonic()
        broker.start()
        sys.stdout.write(f"up again in {time.monotonic() - begun:.2f} s\n")
        assert broker.clients()["mqtt"] == settings
        assert pid_of(broker) != pid
        assert retained(broker, "kept") == [b"last"]
        pid = pid_of(broker)
    finally:
        broker.stop()
    assert session_members(pid) == []
    broker.stop()
    assert not broker.status().up


def test_secrets_are_for_the_owner_alone(place: Path) -> None:
    broker = ManagedMqtt(place)
    broker.start()
    try:
        for name in ("password", "users"):
            assert (place / name).stat().st_mode & 0o777 == 0o600, name
        password = (place / "password").read_text()
        assert len(password) > 30
        assert password not in (place / "users").read_text()
        command = Path(f"/proc/{pid_of(broker)}/cmdline").read_text()
        assert password not in command
    finally:
        broker.stop()


def test_a_taken_port_is_left_to_its_owner(place: Path) -> None:
    """It comes up at another one, also when broker.json is lost."""
    broker = ManagedMqtt(place)
    broker.start()
    port = int(broker.status().address.rpartition(":")[2])
    broker.stop()
    with socket.create_server(("127.0.0.1", port)):
        broker = ManagedMqtt(place)
        try:
            broker.start()
            assert int(broker.status().address.rpartition(":")[2]) != port
        finally:
            broker.stop()
    (place / "broker.json").write_text("")  # as a power failure may leave it
    broker = ManagedMqtt(place)
    try:
        broker.start()
        assert broker.status().up
    finally:
        broker.stop()


def test_a_listener_of_another_process_is_not_ours(
    place: Path, mosquitto: ManagedMqtt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another Mosquitto was faster between the look for a free port and the start."""
    port = int(mosquitto.status().address.rpartition(":")[2])
    assert listens(pid_of(mosquitto), port)
    assert not listens(os.getpid(), port)
    monkeypatch.setattr(server_module, "free_ports", lambda *_: [port])
    broker = ManagedMqtt(place)
    with pytest.raises(OperationFailed) as caught:
        broker.start()
    assert caught.value.code == "broker-died"
    assert caught.value.transient
    assert broker.pid is None
    assert mosquitto.status().up


AGENT = """
import os, sys
from pathlib import Path
from millrace.brokers.mqtt import ManagedMqtt
broker = ManagedMqtt(Path(sys.argv[1]))
broker.start()
print(broker.pid, flush=True)
sys.stdin.readline()
os._exit(1)
"""


def agent(place: Path) -> tuple[subprocess.Popen[str], int]:
    """Run a broker from another process, as an agent does, and return both."""
    process = subprocess.Popen(
        [sys.executable, "-c", AGENT, place],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_a_broker_ends_with_its_agent_and_a_successor_ends_a_left_over(place: Path) -> None:
    process, pid = agent(place)
    process.communicate("\n", timeout=30)
    assert eventually(lambda: session_members(pid) == [])

    process, pid = agent(place)
    os.kill(pid, signal.SIGSTOP)  # it can't hear that its agent is gone
    try:
        process.communicate("\n", timeout=30)
        assert session_members(pid) == [pid]
        broker = ManagedMqtt(place)
        broker.start()
        try:
            assert session_members(pid) == []
            assert broker.status().up
        finally:
            broker.stop()
    finally:
        end_session(pid)


def test_without_the_program_the_way_out_is_told(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(place))
    monkeypatch.setattr(server_module, "_SERVICES", str(place))
    with pytest.raises(OperationFailed) as caught:
        ManagedMqtt(place).start()
    assert caught.value.code == "no-program"
    assert "apt-get install mosquitto" in caught.value.hint


def test_the_plug_in_makes_and_finds_them(place: Path) -> None:
    """A second process reaches a managed one by its folder, with the password there."""
    home = place.parent
    order = BrokerOrder("edge", home, home, options={"qos": "2", "tls": "true"})
    managed: Broker = PLUGIN.broker(order)
    assert PLUGIN.address(home) is None
    managed.start()
    try:
        address = PLUGIN.address(home)
        assert address == managed.status().address
        assert address is not None
        found = BrokerOrder("edge", home, home, address, order.options)
        second: Broker = PLUGIN.broker(found)
        assert second.status().up
        assert second.status().clients["mqtt"] == managed.status().clients["mqtt"]
        second.ensure(Stream("x"))
        assert PLUGIN.log(second.status().clients["mqtt"]).write("x", [Record(b"1")]) == 1
        second.stop()
        assert managed.status().up
    finally:
        managed.stop()
