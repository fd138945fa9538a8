"""What a broker does, whatever it is."""

# ruff: noqa: S101 - these are tests, though they are shipped

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from millrace.errors import OperationFailed
from millrace.model.quantity import Duration, Size
from millrace.model.stream import Stream
from millrace.ports import Broker, Log, Record, Span, StreamStatus
from millrace.testing.conformance.claims import Conformance, behaviour
from millrace.testing.conformance.log import fresh_stream

HOUR = Duration(3_600_000_000_000)
DAY = Duration(24 * HOUR.nanoseconds)


class BrokerConformance(Conformance, suite=True):
    """Tests of the port `Broker`; a subclass gives the fixture `broker`, which serves.

    `start`, `ensure` and `drop` are the port's methods. `partitions`: streams may have several.
    `retention`, `compact` and `max_record`: what a stream says of these is kept. `clients`: who has
    the settings that `status` tells reaches the log from elsewhere; that log is the fixture
    `elsewhere`.
    """

    @pytest.fixture
    def stream(self, broker: Broker) -> Iterator[Stream]:
        """Return a fresh stream of one partition, not made yet; it goes at the end."""
        stream = fresh_stream()
        yield stream
        broker.drop(stream)

    @behaviour("start")
    def test_starting_one_that_serves_changes_nothing(self, broker: Broker) -> None:
        """The same broker is there at the same address."""
        before = broker.status()
        broker.start()
        after = broker.status()
        assert before.up
        assert after.up
        assert (after.address, after.pid) == (before.address, before.pid)

    @behaviour("ensure")
    def test_a_stream_is_there_when_ensure_returns(self, broker: Broker, stream: Stream) -> None:
        """It can be written at once, and what is written is read from the first position."""
        broker.ensure(stream)
        assert broker.log.ends(stream.address) == {0: Span(0, 0)}
        broker.log.write(stream.address, [Record(b"a")])
        [got] = broker.log.read(stream.address, {0: 0}, {0: 1})
        assert got.value == b"a"
        assert broker.status().streams[stream.address] == StreamStatus(1)
        assert broker.status(whole=False).streams[stream.address].partitions == 1

    @behaviour("ensure")
    def test_ensure_again_changes_nothing(self, broker: Broker, stream: Stream) -> None:
        """Records and settings stay."""
        broker.ensure(stream)
        broker.log.write(stream.address, [Record(b"kept")])
        before = broker.status().streams[stream.address]
        broker.ensure(stream)
        assert broker.status().streams[stream.address] == before
        assert broker.log.ends(stream.address) == {0: Span(0, 1)}

    @behaviour("ensure")
    def test_the_topic_of_a_stream_is_its_name_there(self, broker: Broker, stream: Stream) -> None:
        """A broker knows streams by their addresses."""
        other = replace(stream, topic=f"{stream.name}-topic")
        broker.ensure(other)
        try:
            assert broker.log.ends(f"{stream.name}-topic") == {0: Span(0, 0)}
            assert stream.name not in broker.status().streams
        finally:
            broker.drop(other)

    @behaviour("drop")
    def test_a_dropped_stream_is_gone_and_can_be_made_again(
        self, broker: Broker, stream: Stream
    ) -> None:
        """Its records do not come back."""
        broker.ensure(stream)
        broker.log.write(stream.address, [Record(b"old")])
        broker.drop(stream)
        assert stream.address not in broker.status().streams
        broker.ensure(stream)
        assert broker.log.ends(stream.address) == {0: Span(0, 0)}
        broker.log.write(stream.address, [Record(b"new")])
        [got] = broker.log.read(stream.address, {0: 0}, {0: 1})
        assert got.value == b"new"

    @behaviour("drop")
    def test_dropping_one_that_is_not_there_is_no_error(
        self, broker: Broker, stream: Stream
    ) -> None:
        """Neither before it was made nor twice."""
        broker.drop(stream)
        broker.ensure(stream)
        broker.drop(stream)
        broker.drop(stream)
        assert stream.address not in broker.status().streams

    @behaviour("partitions")
    def test_ensure_makes_partitions_and_adds_some(self, broker: Broker, stream: Stream) -> None:
        """The new ones can be used at once; records stay."""
        broker.ensure(replace(stream, partitions=2))
        assert broker.log.ends(stream.address) == {0: Span(0, 0), 1: Span(0, 0)}
        broker.log.write(stream.address, [Record(b"kept", partition=0)])
        broker.ensure(replace(stream, partitions=5))
        broker.log.write(stream.address, [Record(b"new", partition=4)])
        held = broker.log.ends(stream.address)
        assert {part: span.end for part, span in held.items()} == {0: 1, 1: 0, 2: 0, 3: 0, 4: 1}
        assert broker.status().streams[stream.address].partitions == 5

    @behaviour("partitions")
    def test_fewer_partitions_are_refused(self, broker: Broker, stream: Stream) -> None:
        """Nothing is changed then, not even what could be."""
        broker.ensure(replace(stream, partitions=2))
        before, good = broker.status().streams, fresh_stream()
        with pytest.raises(OperationFailed) as caught:
            broker.ensure(good, stream)
        assert caught.value.code == "fewer-partitions"
        assert "partitions: 2" in caught.value.hint
        after = broker.status().streams
        assert after[stream.address] == before[stream.address]
        assert good.address not in after

    @behaviour("retention")
    def test_retention_changes_and_goes(self, broker: Broker, stream: Stream) -> None:
        """By time, another time, by size, and none again; status tells it as declared."""
        for retention, by_time, by_size in (
            (HOUR, 3_600_000, None),
            (DAY, 86_400_000, None),
            (Size(10_000_000), None, 10_000_000),
            (None, None, None),
        ):
            broker.ensure(replace(stream, retention=retention))
            seen = broker.status().streams[stream.address]
            assert seen == StreamStatus(1, by_time, by_size)

    @behaviour("compact")
    def test_compaction_comes_and_goes(self, broker: Broker, stream: Stream) -> None:
        """Status tells it as declared."""
        for compact in (True, False):
            broker.ensure(replace(stream, compact=compact))
            assert broker.status().streams[stream.address] == StreamStatus(1, compact=compact)

    @behaviour("max_record")
    def test_the_greatest_record_is_kept_in_mind(self, broker: Broker, stream: Stream) -> None:
        """Status tells it as declared; one of that size passes."""
        size = 200_000
        broker.ensure(replace(stream, max_record=Size(size)))
        assert broker.status().streams[stream.address] == StreamStatus(1, max_record=size)
        assert broker.log.write(stream.address, [Record(b"x" * size)]) == 1
        broker.ensure(stream)
        assert broker.status().streams[stream.address] == StreamStatus(1)

    @behaviour("clients")
    def test_the_log_is_reached_from_elsewhere(
        self, broker: Broker, stream: Stream, elsewhere: Log
    ) -> None:
        """What one writes the other one reads, at the same positions."""
        broker.ensure(stream)
        broker.log.write(stream.address, [Record(b"ours")])
        assert elsewhere.write(stream.address, [Record(b"theirs")]) == 1
        for log in (broker.log, elsewhere):
            got = list(log.read(stream.address, {0: 0}, {0: 2}))
            assert [(it.position, it.value) for it in got] == [(0, b"ours"), (1, b"theirs")]
