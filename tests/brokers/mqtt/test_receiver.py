"""What a receiver makes of messages: all kinds of them, from us and from a stranger's client."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from millrace.brokers.mqtt import ManagedMqtt, MqttLog, forget
from millrace.brokers.mqtt.connection import Connection
from millrace.brokers.mqtt.counters import read_counts
from millrace.brokers.mqtt.plugin import PLUGIN
from millrace.brokers.mqtt.receiver import Receiver, ReceiverConfig
from millrace.brokers.mqtt.settings import parsed
from millrace.errors import OperationFailed
from millrace.model.stream import Stream
from millrace.ports import BrokerOrder, Reception, Record
from millrace.spool import SpoolReader
from tests.brokers.mqtt.receiving import config_of, holds, numbers, program, receiving, records
from tests.brokers.mqtt.waiting import eventually


def stranger(settings: dict[str, str], *arguments: str) -> None:
    """Publish as somebody who knows nothing of Millrace."""
    port = settings["address"].rpartition(":")[2]
    who = ["-u", settings["username"], "-P", settings["password"]]
    command = ["mosquitto_pub", "-h", "127.0.0.1", "-p", port, *who, "-V", "5", *arguments]
    subprocess.run(command, check=True, timeout=30, capture_output=True)


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_all_of_each_qos_come_once_and_in_order(
    settings: dict[str, str], spool: Path, qos: str, protocol: str
) -> None:
    given = {**settings, "qos": qos, "protocol": protocol}
    topic, name = f"each/{qos}/{protocol}", f"each-{qos}-{protocol}"
    with receiving(config_of(given, topic, spool, name)) as running:
        MqttLog(given).write(topic, (Record(b"%d" % n) for n in range(300)))
        assert holds(spool, 300)
        running.end()
        assert numbers(spool) == list(range(300))
        counts = running.receiver.counts
    assert (counts["received"], counts["redelivered"], counts["dropped"]) == (300, 0, 0)
    forget(given, name)


def test_a_session_is_kept_while_the_receiver_is_away(
    settings: dict[str, str], spool: Path
) -> None:
    """SIGTERM ends it without ending the session; `forget` ends that."""
    config = config_of(settings, "away", spool, "away")
    log = MqttLog(settings)
    with program(config) as running:
        log.write("away", [Record(b"0")])
        assert holds(spool, 1)
        begun = time.monotonic()
        running.child.process.terminate()
        assert running.ended() == 0
        assert time.monotonic() - begun < 3
    assert read_counts(config.counters).connected_since is None
    log.write("away", (Record(b"%d" % n) for n in range(1, 50)))
    with program(config) as running:
        assert holds(spool, 50)
        assert numbers(spool) == list(range(50))
        assert eventually(lambda: running.counts.received == 49)
        assert running.counts.redelivered == 0
    forget(settings, "away")
    log.write("away", [Record(b"50")])
    with receiving(config) as again:
        log.write("away", [Record(b"51")])
        assert holds(spool, 51)
        assert numbers(spool)[-1] == 51
        assert again.receiver.counts["sessions_lost"] == 1
    forget(settings, "away")
    forget(settings, "never-there")


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_a_receiver_that_shall_drain_ends_with_all_that_its_broker_has(
    settings: dict[str, str], spool: Path, number: signal.Signals
) -> None:
    """Its own mark is no record, though everything is read. One that leaves has no session then."""
    config, count = config_of(settings, "#", spool, "drains"), 2000
    with receiving(config) as there:
        there.end()
    MqttLog(settings).write("drained", (Record(b"%d" % n) for n in range(count)))
    with program(config) as running:
        assert eventually(lambda: running.counts.connected_since is not None)
        running.child.process.send_signal(number)
        assert running.ended() == 0
    assert numbers(spool) == list(range(count))
    MqttLog(settings).write("drained", [Record(b"%d" % count)])
    with receiving(config) as again:
        if number is signal.SIGUSR1:
            assert holds(spool, count + 1)
        assert again.receiver.counts["sessions_lost"] == (number is signal.SIGUSR2)
    assert numbers(spool) == list(range(count + (number is signal.SIGUSR1)))
    forget(settings, "drains")


def test_retained_messages_come_once_and_say_so(settings: dict[str, str], spool: Path) -> None:
    log = MqttLog({**settings, "retain": "true"})
    log.write("kept/1", [Record(b"0 kept")])
    config = config_of(settings, "kept/1", spool, "kept")
    with receiving(config):
        assert holds(spool, 1)
        log.write("kept/1", [Record(b"1 fresh")])
        assert holds(spool, 2)
    with receiving(config) as running:  # the subscription is there already
        MqttLog(settings).write("kept/1", [Record(b"2 more")])
        assert holds(spool, 3)
        running.end()
        assert running.receiver.counts["retained"] == 1
    assert numbers(spool) == [0, 1, 2]
    flags = [record.header("mqtt.retained") for record in records(spool)]
    assert flags == [b"1", None, None]
    log.write("kept/1", [Record(b"")])
    forget(settings, "kept")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("w/+/t", ["w/1/t", "w/ä→/t"]),
        ("w/#", ["w/1/t", "w/ä→/t", "w/1/h", "w"]),
        ("+/1/#", ["w/1/t", "w/1/h"]),
        ("#", ["w/1/t", "w/ä→/t", "w/1/h", "w", "x"]),
    ],
)
def test_wildcards_tell_the_topic_and_leave_dollar_topics_out(
    settings: dict[str, str], spool: Path, wanted: str, expected: list[str]
) -> None:
    given = settings
    name = f"wild {wanted}"
    with receiving(config_of(given, wanted, spool, name)):
        log = MqttLog(settings)
        for topic in ("w/1/t", "w/ä→/t", "$own/1/t", "w/1/h", "w", "x"):
            log.write(topic, [Record(topic.encode())])
        assert holds(spool, len(expected))
        MqttLog(settings).write(expected[0], [Record(b"end")])
        assert holds(spool, len(expected) + 1)
    got = records(spool)[:-1]
    assert [record.header("mqtt.topic") for record in got] == [it.encode() for it in expected]
    assert [record.value for record in got] == [it.encode() for it in expected]
    forget(given, name)


def test_properties_of_mqtt_5_are_headers_and_travel_on(
    settings: dict[str, str], spool: Path
) -> None:
    with receiving(config_of(settings, "props", spool, "props")):
        properties = [
            ("user-property", "colour", "blau ü"),
            ("user-property", "colour", "red"),
            ("content-type", "text/plain"),
            ("response-topic", "answers"),
            ("correlation-data", "abc"),
            ("message-expiry-interval", "100"),
            ("payload-format-indicator", "1"),
        ]
        given = [text for it in properties for text in ("-D", "publish", *it)]
        stranger(settings, "-t", "props", "-q", "1", "-m", "hello", *given)
        assert holds(spool, 1)
        [first] = records(spool)
        MqttLog(settings).write("props", [first])
        assert holds(spool, 2)
    _, second = records(spool)
    assert first.value == b"hello"
    assert dict(first.headers) == {
        "colour": b"red",
        "mqtt.content-type": b"text/plain",
        "mqtt.response-topic": b"answers",
        "mqtt.correlation": b"abc",
        "mqtt.expiry": b"100",
        "mqtt.format": b"1",
    }
    assert [value for name, value in first.headers if name == "colour"] == [
        "blau ü".encode(), b"red",
    ]  # fmt: skip
    assert second.headers == first.headers
    assert second.time == first.time
    forget(settings, "props")


def test_empty_and_large_payloads(settings: dict[str, str], spool: Path) -> None:
    large = bytes(range(256)) * 4096
    with receiving(config_of(settings, "ends/ünï", spool, "ends")):
        MqttLog(settings).write(
            "ends/ünï", [Record(b""), Record(large), Record(None), Record(b"x")]
        )
        stranger(settings, "-t", "ends/ünï", "-q", "1", "-n")
        assert holds(spool, 5)
    assert [record.value for record in records(spool)] == [b"", large, None, b"x", b""]
    forget(settings, "ends")


def test_what_is_read_is_forgotten(settings: dict[str, str], spool: Path) -> None:
    config = config_of(settings, "trim", spool, "trim")
    with receiving(config):
        MqttLog(settings).write("trim", [Record(b"x")] * 10)
        assert holds(spool, 10)
        config.read.write_text("10")
        assert eventually(lambda: SpoolReader(spool).span().first == 10)
    forget(settings, "trim")


def test_another_topic_of_the_same_receiver_takes_the_place_of_the_first(
    settings: dict[str, str], spool: Path
) -> None:
    log = MqttLog(settings)
    with receiving(config_of(settings, "first", spool, "moved")):
        pass
    with receiving(config_of(settings, "second", spool, "moved")):
        log.write("first", [Record(b"1")])
        log.write("second", [Record(b"2")])
        assert holds(spool, 1)
        assert numbers(spool) == [2]
    forget(settings, "moved")


def test_one_spool_has_one_receiver(settings: dict[str, str], spool: Path) -> None:
    with (
        receiving(config_of(settings, "one", spool, "one")),
        program(config_of(settings, "one", spool, "two"), connected=False) as second,
    ):
        assert second.ended() == 4
        assert "spool-held" in second.text
    forget(settings, "one")


def test_a_message_of_qos_2_is_not_promised_before_it_is_kept(
    settings: dict[str, str], spool: Path
) -> None:
    """A client that takes one and says nothing is sent it again, and it counts once."""
    given = {**settings, "qos": "2"}
    with receiving(config_of(given, "exactly", spool, "exactly")):
        pass
    MqttLog(given).write("exactly", [Record(b"0")])
    mute = Connection(parsed(given), "exactly", keep=True)
    assert mute.open()
    begun, came = time.monotonic(), mute.take()[0]
    while not came and time.monotonic() - begun < 10:
        mute.pump(0.5)
        came = mute.take()[0]
    assert [(message.payload, message.qos) for message in came] == [(b"0", 2)]
    mute.close()
    with receiving(config_of(given, "exactly", spool, "exactly")) as running:
        assert holds(spool, 1)
        running.end()
        assert running.receiver.counts["redelivered"] == 1
    assert [record.header("mqtt.redelivered") for record in records(spool)] == [b"1"]
    forget(given, "exactly")


def test_a_config_that_others_can_read_is_refused(settings: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    config_of(settings, "x", tmp_path / "spool").write(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert ReceiverConfig.load(file) == config_of(settings, "x", tmp_path / "spool")
    file.chmod(0o644)
    with pytest.raises(OperationFailed) as caught:
        ReceiverConfig.load(file)
    assert caught.value.code == "not-private"
    file.chmod(0o600)
    file.write_text("{}")
    with pytest.raises(OperationFailed) as caught:
        ReceiverConfig.load(file)
    assert caught.value.code == "bad-config"


def test_wrong_credentials_end_the_program(settings: dict[str, str], spool: Path) -> None:
    wrong = {**settings, "password": "no"}
    with program(config_of(wrong, "x", spool), connected=False) as running:
        assert running.ended() == 2
        assert "not-authenticated" in running.text
        assert "not-authenticated" not in (running.counts.last_error or "")
        assert "does not let" in (running.counts.last_error or "")


def test_a_topic_that_can_not_be_read_is_refused(settings: dict[str, str], spool: Path) -> None:
    with pytest.raises(OperationFailed) as caught:
        Receiver(config_of(settings, "a/b+", spool))
    assert "a/+/c" in caught.value.hint


def test_the_plug_in_starts_a_receiver(
    mosquitto: ManagedMqtt, settings: dict[str, str], spool: Path
) -> None:
    reception = Reception(settings, "by-plugin", "millrace/pipe/job/by-plugin", spool)
    command = PLUGIN.receiver(reception)
    assert settings["password"] not in " ".join(command)
    process = subprocess.Popen(list(command), stderr=subprocess.PIPE)
    try:
        counters = ReceiverConfig.load(Path(command[-1])).counters
        assert eventually(lambda: read_counts(counters).connected_since is not None)
        mosquitto.log.write("by-plugin", [Record(b"7")])
        assert holds(spool, 1)
    finally:
        process.terminate()
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0, said
    forget(settings, reception.name)


def test_a_broker_keeps_what_comes_before_the_receiver(
    settings: dict[str, str], spool: Path, tmp_path: Path
) -> None:
    """From `ensure` on; a receiver that is there is not disturbed by another `ensure`."""
    stream, name = Stream("early"), "millrace/pipe/job/early"
    order = BrokerOrder("x", tmp_path, tmp_path, settings["address"], settings_alone(settings))
    broker = PLUGIN.broker(order)
    MqttLog({**settings, "retain": "true"}).write("early", [Record(b"0")])
    broker.ensure(stream, readers=[name])
    broker.log.write("early", [Record(b"%d" % n) for n in range(1, 6)])
    with receiving(config_of(settings, "early", spool, name)) as running:
        assert holds(spool, 6)
        PLUGIN.broker(order).ensure(stream, readers=[name])
        broker.log.write("early", [Record(b"6")])
        assert holds(spool, 7)
        running.end()
        assert running.receiver.counts["reconnects"] == 0
        assert running.receiver.counts["sessions_lost"] == 0
    assert numbers(spool) == list(range(7))
    MqttLog({**settings, "retain": "true"}).write("early", [Record(b"")])
    PLUGIN.broker(order).drop(stream)
    looked = Connection(parsed({**settings, "session_expiry": "0"}), name, keep=True)
    assert not looked.open()  # there was no session any more
    looked.close()


def settings_alone(settings: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name != "address"}
