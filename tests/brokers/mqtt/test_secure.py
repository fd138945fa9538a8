"""TLS and passwords, and what is told when something about them is wrong."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.brokers.mqtt import AttachedMqtt, ManagedMqtt
from millrace.errors import OperationFailed
from millrace.model.stream import Stream
from millrace.ports import Record

PASSWORD = 'a"b\\c; d=é:1'  # noqa: S105 - of a broker that lives for seconds


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedMqtt]:
    place = tmp_path_factory.mktemp("secure")
    broker = ManagedMqtt(place, {"tls": "true", "username": "sensor", "password": PASSWORD})
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
        shutil.rmtree(place)


@pytest.fixture
def good(secure: ManagedMqtt) -> dict[str, str]:
    return secure.clients()["mqtt"]


@pytest.fixture(scope="module")
def other_ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("other")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"]
    command += ["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=other"]
    command += ["-keyout", "ca.key", "-out", "ca.crt"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    return folder


def refused(settings: dict[str, str]) -> OperationFailed:
    """Return how a broker and its log refuse, which is the same, and soon."""
    broker = AttachedMqtt(settings)
    begun = time.monotonic()
    with pytest.raises(OperationFailed) as starting:
        broker.start()
    with pytest.raises(OperationFailed) as writing:
        broker.log.write("x", [Record(b"x")])
    with pytest.raises(OperationFailed) as reading:
        broker.log.ends("x")
    assert starting.value.code == writing.value.code == reading.value.code
    assert not broker.status().up
    assert time.monotonic() - begun < 10
    return starting.value


def test_tls_and_password_write_and_read(good: dict[str, str]) -> None:
    assert good["address"].startswith("mqtts://127.0.0.1:")
    broker = AttachedMqtt(good)
    try:
        broker.start()
        broker.ensure(Stream("guarded"))
        value = bytes(range(256)) * 4096  # 1 MB, many TLS records
        broker.log.write("guarded", [Record(value, b"k")] * 3)
        got = list(broker.log.read("guarded", {0: 0}, {0: 3}))
        assert [(record.value, record.key) for record in got] == [(value, b"k")] * 3
    finally:
        broker.stop()


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
@pytest.mark.parametrize("wrong", [{"password": "no"}, {"username": "nobody"}, {}])
def test_a_wrong_password_is_told(
    good: dict[str, str], wrong: dict[str, str], protocol: str
) -> None:
    given = {**good, **wrong, "protocol": protocol}
    if not wrong:
        del given["username"], given["password"]
    failure = refused(given)
    assert failure.code == "not-authenticated"
    assert not failure.transient
    assert "password" in failure.hint
    assert given["address"] in failure.message
    assert PASSWORD not in str(failure)


def test_a_wrong_authority_is_told(good: dict[str, str], other_ca: Path) -> None:
    failure = refused({**good, "ca": str(other_ca / "ca.crt")})
    assert failure.code == "not-trusted"
    assert not failure.transient
    assert "ca" in failure.hint


def test_a_host_that_is_not_in_the_certificate_is_told(good: dict[str, str]) -> None:
    port = good["address"].rpartition(":")[2]
    failure = refused({**good, "address": f"ssl://127.0.0.2:{port}"})
    assert failure.code in ("not-trusted", "no-broker")  # it listens at 127.0.0.1 alone


def test_files_that_are_not_there_are_told(good: dict[str, str], other_ca: Path) -> None:
    for name in ("ca", "certificate"):
        with pytest.raises(OperationFailed) as caught:
            AttachedMqtt({**good, name: str(other_ca / "nix.crt")}).start()
        assert caught.value.code == "bad-setting"
        assert "PEM" in caught.value.hint


def test_tls_where_there_is_none_and_none_where_there_is(
    good: dict[str, str], settings: dict[str, str]
) -> None:
    plain = refused({**good, "address": good["address"].replace("mqtts", "mqtt")})
    assert plain.code == "no-broker"
    assert "mqtts://" in plain.hint
    tls = refused({**settings, "address": settings["address"].replace("mqtt:", "mqtts:")})
    assert tls.code in ("not-trusted", "no-broker")
    assert "TLS" in tls.hint


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "mqtt://nowhere.invalid"])
def test_no_broker_is_told_soon(address: str) -> None:
    begun = time.monotonic()
    with pytest.raises(OperationFailed) as caught:
        AttachedMqtt({"address": address}).start()
    assert time.monotonic() - begun < 10
    assert caught.value.code == "no-broker"
    assert address.rpartition("//")[2] in caught.value.message
    assert "address" in caught.value.hint
    assert caught.value.transient


def test_one_that_is_silent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millrace.brokers.mqtt.connection.ANSWER_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(OperationFailed) as caught:
            AttachedMqtt({"address": f"127.0.0.1:{port}"}).start()
    assert caught.value.code == "no-broker"
    assert "silent" in caught.value.message
