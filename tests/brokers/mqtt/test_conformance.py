"""MQTT claims what a broker without a log can do, and its log what a recording can."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import pytest

from millrace.brokers.mqtt import AttachedMqtt, ManagedMqtt, MqttLog
from millrace.errors import OperationFailed
from millrace.model.quantity import Duration, Size
from millrace.model.stream import Stream
from millrace.ports import Broker, Record, Span, StreamStatus
from millrace.testing.conformance.broker import BrokerConformance
from millrace.testing.conformance.log import SOME_TIME, LogConformance, fresh_stream


class TestMqtt(BrokerConformance, LogConformance):
    CLAIMS = frozenset(
        {
            *("start", "ensure", "drop", "max_record"),
            *("records", "order", "positions", "waiting", "times"),
        }
    )
    EXCUSES: ClassVar = {
        "partitions": "a topic of MQTT has no parts",
        "retention": "MQTT keeps no records, so there is nothing to keep for a time",
        "compact": "MQTT keeps no records but the last one of a topic, if it is retained",
        "clients": "positions are those of a recording, and each log makes its own",
        "missing": "every topic is there: MQTT makes none",
    }

    @pytest.fixture
    def broker(self, mosquitto: ManagedMqtt) -> Broker:
        return mosquitto


@pytest.fixture
def stream(mosquitto: ManagedMqtt) -> Iterator[Stream]:
    stream = fresh_stream()
    yield stream
    mosquitto.drop(stream)


def test_a_stream_is_there_when_ensure_returns(mosquitto: ManagedMqtt, stream: Stream) -> None:
    mosquitto.ensure(stream)
    name = stream.address
    assert mosquitto.log.ends(name) == {0: Span(0, 0)}
    mosquitto.log.write(name, [Record(b"a")])
    mosquitto.ensure(stream)
    assert mosquitto.log.ends(name) == {0: Span(0, 1)}
    assert mosquitto.status().streams[name] == StreamStatus(1)
    [got] = mosquitto.log.read(name, {0: 0}, {0: 1})
    assert got.value == b"a"


def test_a_dropped_stream_is_gone_and_can_be_made_again(
    mosquitto: ManagedMqtt, stream: Stream
) -> None:
    stream = replace(stream, options={"retain": True})
    mosquitto.drop(stream)
    mosquitto.ensure(stream)
    mosquitto.log.write(stream.address, [Record(b"old")])
    mosquitto.drop(stream)
    mosquitto.drop(stream)
    assert stream.address not in mosquitto.status().streams
    mosquitto.ensure(stream)
    assert mosquitto.log.ends(stream.address) == {0: Span(0, 0)}
    mosquitto.log.write(stream.address, [Record(b"new")])
    [got] = mosquitto.log.read(stream.address, {0: 0}, {0: 1})
    assert got.value == b"new"


@pytest.mark.parametrize(
    ("wish", "way"),
    [
        ({"partitions": 2}, "partitions: 1"),
        ({"compact": True}, "retain"),
        ({"retention": Duration.parse("1 h")}, "retention"),
        ({"max_record": Size(300_000_000)}, "max_record"),
        ({"options": {"qoss": 1}}, "'qos'"),
        ({"options": {"qos": 3}}, "0, 1, 2"),
    ],
)
def test_what_mqtt_can_not_do_is_refused_with_the_way_out(
    mosquitto: ManagedMqtt, wish: dict[str, object], way: str
) -> None:
    stream, good = replace(Stream("x"), **wish), Stream("good")  # type: ignore[arg-type]
    with pytest.raises(OperationFailed) as caught:
        mosquitto.ensure(good, stream)
    assert way in caught.value.hint
    assert not caught.value.transient
    assert "good" not in mosquitto.status().streams


def test_an_attached_one_is_tried_and_left_alone(
    mosquitto: ManagedMqtt, settings: dict[str, str]
) -> None:
    broker: Broker = AttachedMqtt(settings)
    broker.start()
    seen = broker.status()
    assert seen.up
    assert seen.pid is None
    assert seen.clients["mqtt"] == settings
    broker.stop()
    assert broker.status().up
    assert mosquitto.status().up


def test_two_logs_record_each_for_itself(settings: dict[str, str]) -> None:
    """Positions count from the first question; what came before is not there."""
    name, one, two = fresh_stream().address, MqttLog(settings), MqttLog(settings)
    try:
        assert one.ends(name) == {0: Span(0, 0)}
        two.write(name, [Record(b"1")])
        assert two.ends(name) == {0: Span(0, 0)}
        two.write(name, [Record(b"2")])
        assert one.ends(name) == {0: Span(0, 2)}
        assert [record.value for record in two.read(name, {0: 0}, {0: 1})] == [b"2"]
    finally:
        one.close()
        two.close()


def test_a_recording_in_a_folder_is_read_by_others(
    settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("recordings")
    name, one, two = "a/b.c/" + "long" * 80, MqttLog(settings, folder), MqttLog(settings, folder)
    try:
        one.ends(name)
        one.write(name, [Record(b"1")])
        assert [record.value for record in two.read(name, {0: 0}, {0: 1})] == [b"1"]
        one.close()
        assert one.ends(name) == {0: Span(0, 1)}
    finally:
        one.close()
        two.close()


def test_qos_of_the_stream_is_used(settings: dict[str, str]) -> None:
    """Of QoS 0 and 2 as well, with and without a broker that says so."""
    for qos in ("0", "2"):
        log = MqttLog({**settings, "qos": qos})
        try:
            log.ends(f"qos/{qos}")
            assert log.write(f"qos/{qos}", (Record(b"%d" % n) for n in range(500))) == 500
            assert log.ends(f"qos/{qos}") == {0: Span(0, 500)}
        finally:
            log.close()


def test_version_3_carries_values_only_and_tells_so_once(
    settings: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    log = MqttLog({**settings, "protocol": "3.1.1"})
    begun = int(time.time() * 1000)
    try:
        log.ends("old")
        log.write("old", [Record(b"x", b"key", (("h", b"1"),), time=SOME_TIME), Record(None)])
        one, two = log.read("old", {0: 0}, {0: 2})
    finally:
        log.close()
    assert (one.value, one.key, one.headers, two.value) == (b"x", None, (), b"")
    assert one.time is not None
    assert one.time >= begun
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "protocol: 5" in caplog.text


def test_status_of_one_that_is_away_tells_so() -> None:
    broker = AttachedMqtt({"address": "tcp://127.0.0.1:1"})
    seen = broker.status()
    assert not seen.up
    assert seen.address == "mqtt://127.0.0.1:1"
    assert seen.streams == {}
