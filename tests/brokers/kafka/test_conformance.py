"""Kafka claims what every broker and log must do, and what only Kafka does with one broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.brokers.kafka import AttachedKafka, MadeTopics, ManagedKafka
from millrace.brokers.kafka.plugin import PLUGIN
from millrace.errors import OperationFailed
from millrace.model.quantity import Duration, Size
from millrace.model.stream import Stream
from millrace.ports import Broker, Log, Record, Span
from millrace.testing.conformance.broker import BrokerConformance
from millrace.testing.conformance.claims import behaviours
from millrace.testing.conformance.log import LogConformance, fresh_stream


class TestKafka(BrokerConformance, LogConformance):
    CLAIMS = frozenset({*behaviours(BrokerConformance), *behaviours(LogConformance)})

    @pytest.fixture
    def broker(self, kafka: ManagedKafka) -> Broker:
        return kafka

    @pytest.fixture
    def elsewhere(self, kafka: ManagedKafka) -> Log:
        return PLUGIN.log(kafka.status().clients["librdkafka"])


def test_an_attached_one_is_tried_and_left_alone(kafka: ManagedKafka) -> None:
    broker: Broker = AttachedKafka({"bootstrap.servers": kafka.status().address})
    broker.start()
    seen = broker.status()
    assert seen.up
    assert seen.pid is None
    broker.stop()
    assert broker.status().up
    assert kafka.status().up


@pytest.fixture
def stream(kafka: ManagedKafka) -> Iterator[Stream]:
    stream = fresh_stream()
    yield stream
    kafka.drop(stream)


@pytest.mark.parametrize("size", [2_000_000, 10_000_000])
def test_large_records_pass_where_the_stream_says_so(
    kafka: ManagedKafka, stream: Stream, size: int
) -> None:
    kafka.ensure(stream)
    with pytest.raises(OperationFailed) as caught:
        kafka.log.write(stream.address, [Record(b"x" * size)])
    assert caught.value.code == "too-large"
    assert f"streams.{stream.address}.max_record" in caught.value.hint
    assert not caught.value.transient
    assert kafka.log.ends(stream.address) == {0: Span(0, 0)}

    kafka.ensure(replace(stream, max_record=Size(size)))
    value = bytes(range(250)) * (size // 250)
    kafka.log.write(stream.address, [Record(value, b"key", (("h", b"v"),))] * 3)
    got = [record.value for record in kafka.log.read(stream.address, {0: 0}, {0: 3})]
    assert got == [value] * 3

    with pytest.raises(OperationFailed) as caught:
        kafka.log.write(stream.address, [Record(b"x" * (size + 100_000))])
    assert caught.value.code == "too-large"


def test_many_small_records_pass_a_small_limit(kafka: ManagedKafka, stream: Stream) -> None:
    """The limit holds for what is sent at once too, which may be many records."""
    kafka.ensure(replace(stream, max_record=Size(10_000)))
    assert kafka.log.write(stream.address, (Record(b"x" * 9_000) for _ in range(500))) == 500


def test_compaction_with_retention_does_both(kafka: ManagedKafka, stream: Stream) -> None:
    """Kafka would ignore the retention of a topic that is only compacted."""
    kafka.ensure(replace(stream, compact=True, retention=Duration.parse("1 h")))
    seen = kafka.status().streams[stream.address]
    assert seen.compact
    assert seen.retention_ms == 3_600_000
    own = kafka._own_settings([stream.address], 10.0)[stream.address]
    assert own["cleanup.policy"] == "compact,delete"


def test_a_compacted_stream_is_read_to_its_end(kafka: ManagedKafka, stream: Stream) -> None:
    """Whatever compaction took away by then, the last record of each key is there."""
    options = {"segment.ms": 100, "min.cleanable.dirty.ratio": 0.01, "max.compaction.lag.ms": 100}
    kafka.ensure(replace(stream, compact=True, options=options))
    for turn in range(3):
        kafka.log.write(stream.address, [Record(b"%d" % turn, key) for key in (b"a", b"b")])
    got = kafka.log.read(stream.address, {0: 0}, {0: kafka.log.ends(stream.address)[0].end})
    assert {record.key: record.value for record in got} == {b"a": b"2", b"b": b"2"}


def test_a_change_that_is_refused_changes_nothing_else(kafka: ManagedKafka, stream: Stream) -> None:
    kafka.ensure(replace(stream, partitions=2))
    before = kafka.status().streams[stream.address]
    with pytest.raises(OperationFailed) as caught:
        kafka.ensure(replace(stream, partitions=1, retention=Duration.parse("1 h")))
    assert caught.value.code == "fewer-partitions"
    assert kafka.status().streams[stream.address] == before


def test_options_of_the_stream_reach_the_topic(kafka: ManagedKafka, stream: Stream) -> None:
    kafka.ensure(replace(stream, options={"segment.bytes": 2_000_000, "compression.type": "lz4"}))
    own = kafka._own_settings([stream.address], 10.0)[stream.address]
    assert own == {"segment.bytes": "2000000", "compression.type": "lz4"}


def test_an_option_that_kafka_refuses_changes_nothing(kafka: ManagedKafka, stream: Stream) -> None:
    kafka.ensure(stream)
    with pytest.raises(OperationFailed) as caught:
        kafka.ensure(replace(stream, partitions=3, options={"compression.type": "nix"}))
    assert "compression.type" in caught.value.message
    assert kafka.status().streams[stream.address].partitions == 1


def test_a_name_like_those_of_kafka_is_a_stream_too(kafka: ManagedKafka) -> None:
    stream = Stream(name="__mine")
    kafka.ensure(stream)
    kafka.ensure(replace(stream, partitions=2))
    assert kafka.status().streams["__mine"].partitions == 2
    kafka.drop(stream)
    assert "__mine" not in kafka.status().streams


def test_status_tells_how_clients_connect(kafka: ManagedKafka) -> None:
    seen = kafka.status()
    assert seen.clients["librdkafka"] == {"bootstrap.servers": seen.address}
    assert seen.clients["java"] == {"bootstrap.servers": seen.address}
    assert seen.pid is not None


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere.invalid:9092"])
def test_a_wrong_address_is_told_soon(address: str) -> None:
    broker = AttachedKafka({"bootstrap.servers": address})
    begun = time.monotonic()
    with pytest.raises(OperationFailed) as caught:
        broker.log.ends("x") if address.startswith("127") else broker.start()
    assert time.monotonic() - begun < 10
    assert caught.value.code == "no-broker"
    assert address in caught.value.message
    assert "host:port" in caught.value.hint
    assert caught.value.transient


def test_topics_of_others_stay_as_they_are(kafka: ManagedKafka, tmp_path: Path) -> None:
    """A broker that is not ours: a stream's topic goes with it only where Millrace made it."""
    theirs = Stream("theirs", retention=Duration(3_600 * Duration.UNITS["s"]))
    kafka.ensure(theirs)
    settings = {"bootstrap.servers": kafka.status().address}

    def attached() -> AttachedKafka:
        return AttachedKafka(settings, made=MadeTopics(tmp_path / "site" / "topics"))

    ours, bare = Stream("made-by-us"), Stream("theirs", partitions=2)
    attached().ensure(ours, bare)
    seen = attached().status().streams
    assert (seen["theirs"].partitions, seen["theirs"].retention_ms) == (2, 3_600_000)
    attached().drop(bare)
    attached().drop(ours)
    assert "theirs" in kafka.status().streams
    assert "made-by-us" not in kafka.status().streams
    attached().ensure(ours)
    attached().drop(ours)
    assert "made-by-us" not in kafka.status().streams


def test_status_of_one_that_is_away_tells_so() -> None:
    seen = AttachedKafka({"bootstrap.servers": "127.0.0.1:1"}).status()
    assert not seen.up
    assert seen.address == "127.0.0.1:1"


def test_a_setting_that_no_client_takes_is_told() -> None:
    given = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "nix"}
    broker = AttachedKafka(given)
    for use in (broker.start, lambda: broker.log.ends("x"), lambda: broker.log.write("x", [])):
        with pytest.raises(OperationFailed) as caught:
            use()
        assert caught.value.code == "bad-setting"
        assert "security.protocol" in caught.value.message
    assert not broker.status().up
