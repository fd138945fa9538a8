"""A Kafka of our own: started, killed, started again; nothing is left, nothing is lost."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from millrace.brokers.kafka import ManagedKafka
from millrace.brokers.kafka.server import _env, _escaped
from millrace.errors import OperationFailed
from millrace.machine import Java
from millrace.machine.process import end_session, session_members, started_at
from millrace.model.stream import Stream
from millrace.ports import Record

LIMIT = 30.0
STREAM = Stream(name="kept")


def eventually(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def pid_of(broker: ManagedKafka) -> int:
    pid = broker.status().pid
    assert pid is not None
    return pid


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def port_of(broker: ManagedKafka) -> int:
    return int(broker.status().address.rpartition(":")[2])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Give a folder whose name is not plain; no broker of it is left at the end."""
    folder = tmp_path / "mühle no. 1"
    yield folder
    if (folder / "broker.json").exists():
        left = session_members(json.loads((folder / "broker.json").read_text())["pid"])
        for pid in left:
            end_session(pid)
        assert left == []


def test_a_killed_broker_comes_back_with_port_and_records(
    place: Path, java: Java, jars: Path
) -> None:
    broker = ManagedKafka(place, java, jars)
    assert not broker.status().up
    assert ManagedKafka.address_at(place) is None
    broker.start()
    try:
        broker.ensure(STREAM)
        broker.log.write("kept", [Record(b"%d" % n) for n in range(100)])
        address, pid = broker.status().address, pid_of(broker)
        assert ManagedKafka.address_at(place) == address
        end_session(pid)
        assert eventually(lambda: not broker.status().up)
        assert ManagedKafka.address_at(place) is None

        begun = time.monotonic()
        broker.start()
        sys.stdout.write(f"up again after a kill in {time.monotonic() - begun:.1f} s\n")
        assert broker.status().address == address
        assert pid_of(broker) != pid
        got = [record.value for record in broker.log.read("kept", {0: 0}, {0: 100})]
        assert got == [b"%d" % n for n in range(100)]
        assert broker.log.write("kept", [Record(b"more")]) == 1
        pid = pid_of(broker)
    finally:
        broker.stop()
    assert session_members(pid) == []
    assert not listens(int(address.rpartition(":")[2]))
    broker.stop()
    assert not broker.status().up

    _take_the_ports_and_start(place, java, jars)


def _take_the_ports_and_start(place: Path, java: Java, jars: Path) -> None:
    """With both ports in other hands it comes up at others, even when broker.json is lost."""
    known = json.loads((place / "broker.json").read_text())
    with (
        socket.create_server(("127.0.0.1", known["port"])) as one,
        socket.create_server(("127.0.0.1", known["controller"])) as two,
    ):
        broker = ManagedKafka(place, java, jars)
        (place / "broker.json").write_text("")  # as a power failure may leave it
        try:
            broker.start()
            taken = {one.getsockname()[1], two.getsockname()[1]}
            now = json.loads((place / "broker.json").read_text())
            assert taken.isdisjoint({now["port"], now["controller"]})
            assert port_of(broker) == now["port"]
            assert now["cluster"] == known["cluster"]
            assert broker.log.ends("kept")[0].end == 101
        finally:
            broker.stop()


AGENT = """
import os, sys
from pathlib import Path
from millrace.brokers.kafka import ManagedKafka
from millrace.machine import Java
home, version, jars, place = sys.argv[1:]
broker = ManagedKafka(Path(place), Java(Path(home), int(version)), Path(jars))
broker.start()
print(broker.status().pid, flush=True)
sys.stdin.readline()
os._exit(1)
"""


def agent(place: Path, java: Java, jars: Path) -> tuple[subprocess.Popen[str], int]:
    """Run a broker from another process, as an agent does, and return both ids."""
    process = subprocess.Popen(
        [sys.executable, "-c", AGENT, java.home, str(java.version), jars, place],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_a_broker_ends_with_its_agent_and_a_successor_ends_a_left_over(
    place: Path, kafka: ManagedKafka, java: Java, jars: Path
) -> None:
    process, pid = agent(place, java, jars)
    with process:
        assert session_members(pid) == [pid]
        process.communicate("end\n", timeout=LIMIT)
        assert process.returncode == 1
    assert eventually(lambda: session_members(pid) == [])

    # Another Kafka holds our port, and one of our own was left over: the one is left alone, the
    # other ended. What is left over is a process whose id and start are in broker.json.
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as left_over:
        known = json.loads((place / "broker.json").read_text())
        started = started_at(left_over.pid)
        known |= {"port": port_of(kafka), "pid": left_over.pid, "started": started}
        (place / "broker.json").write_text(json.dumps(known))
        successor = ManagedKafka(place, java, jars)
        try:
            successor.start()
            assert left_over.wait(LIMIT) == -9
            assert port_of(successor) != port_of(kafka)
            assert successor.status().streams == {}
        finally:
            left_over.kill()
            successor.stop()
    assert kafka.status().up


def test_an_id_that_another_program_got_is_left_alone(place: Path) -> None:
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as stranger:
        try:
            place.mkdir()
            known = {
                "cluster": "c",
                "port": 1,
                "controller": 2,
                "pid": stranger.pid,
                "started": 5.0,
            }
            (place / "broker.json").write_text(json.dumps(known))
            assert ManagedKafka.address_at(place) is None
            assert stranger.poll() is None
        finally:
            stranger.kill()
    (place / "broker.json").unlink()


def test_a_port_that_is_taken_meanwhile_is_given_up(place: Path, java: Java, jars: Path) -> None:
    """Between the choice of a port and its use are seconds, in which anybody may take it."""
    broker = ManagedKafka(place, java, jars)
    broker.launch()
    port = json.loads((place / "broker.json").read_text())["port"]
    with socket.create_server(("127.0.0.1", port)):
        broker.start()
        try:
            assert port_of(broker) != port
            broker.ensure(STREAM)
            assert broker.log.write("kept", [Record(b"1")]) == 1
        finally:
            broker.stop()


def test_one_that_can_not_start_says_where_to_look(place: Path, java: Java, jars: Path) -> None:
    """And leaves nothing running; settings that Kafka refuses are told before it is formatted."""
    broker = ManagedKafka(place, java, jars, settings={"log.retention.ms": "nix"})
    with pytest.raises(OperationFailed) as caught:
        broker.start()
    assert caught.value.code == "broker-not-formatted"
    assert str(place / "kafka.log") in caught.value.hint
    assert "log.retention.ms" in (place / "kafka.log").read_text()
    assert not broker.status().up
    assert (place / "server.properties").stat().st_mode & 0o777 == 0o600
    left = [p.pid for p in psutil.process_iter() if str(place) in " ".join(_arguments(p))]
    assert left == []


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.parametrize(
    "text", ["plain", "a\\b", "é € 𝄞", "two\nlines\r", 'user="x\\"y";', "a=b:c"]
)
def test_values_of_properties_are_as_java_reads_them(text: str) -> None:
    written = _escaped(text)
    assert written.isascii()
    assert "\n" not in written
    units = re.sub(r"\\u([0-9a-f]{4})", lambda m: chr(int(m[1], 16)), written)
    read = re.sub(r"\\(.)", lambda m: {"n": "\n", "r": "\r"}.get(m[1], m[1]), units)
    assert read.encode("utf-16-be", "surrogatepass").decode("utf-16-be") == text


def test_settings_of_other_kafkas_do_not_reach_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", "-Dnix")
    assert "KAFKA_OPTS" not in _env()
    assert os.environ["KAFKA_OPTS"] == "-Dnix"
