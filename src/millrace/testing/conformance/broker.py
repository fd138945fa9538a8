"""What a broker does, whatever it is."""

# ruff: noqa: S101 - these are tests, though they are shipped

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from millrace.errors import OperationFailed
from millrace.model.quantity import Duration, Size
from millrace.model.stream import Stream
from millrace.ports import Broker, Record, Span, StreamStatus
from millrace.testing.conformance.log import fresh_stream

HOUR = Duration(3_600_000_000_000)
DAY = Duration(24 * HOUR.nanoseconds)


class BrokerConformance:
    """Tests of the port `Broker`; a subclass gives the fixture `broker`, which serves."""

    @pytest.fixture
    def stream(self, broker: Broker) -> Iterator[Stream]:
        """Return a fresh stream of two partitions, not made yet; it goes at the end."""
        stream = fresh_stream(2)
        yield stream
        broker.drop(stream)

    def test_starting_one_that_serves_changes_nothing(self, broker: Broker) -> None:
        """The same broker is there at the same address."""
        before = broker.status()
        broker.start()
        after = broker.status()
        assert before.up
        assert after.up
        assert (after.address, after.pid) == (before.address, before.pid)

    def test_a_stream_is_there_when_ensure_returns(self, broker: Broker, stream: Stream) -> None:
        """It can be written at once, and what is written is read from the first position."""
        broker.ensure(stream)
        first = {part: span.end for part, span in broker.log.ends(stream.address).items()}
        assert first == {0: 0, 1: 0}
        broker.log.write(stream.address, [Record(b"a", partition=0), Record(b"b", partition=1)])
        got = broker.log.read(stream.address, first, {0: 1, 1: 1})
        assert sorted(record.value or b"" for record in got) == [b"a", b"b"]

    def test_ensure_again_changes_nothing(self, broker: Broker, stream: Stream) -> None:
        """Records and settings stay."""
        stream = replace(stream, retention=HOUR)
        broker.ensure(stream)
        broker.log.write(stream.address, [Record(b"kept", partition=0)])
        before = broker.status().streams[stream.address]
        broker.ensure(stream)
        assert broker.status().streams[stream.address] == before
        assert broker.log.ends(stream.address) == {0: Span(0, 1), 1: Span(0, 0)}

    def test_ensure_adds_partitions(self, broker: Broker, stream: Stream) -> None:
        """The new ones can be used at once; records stay."""
        broker.ensure(stream)
        broker.log.write(stream.address, [Record(b"kept", partition=0)])
        broker.ensure(replace(stream, partitions=5))
        broker.log.write(stream.address, [Record(b"new", partition=4)])
        held = broker.log.ends(stream.address)
        assert {part: span.end for part, span in held.items()} == {0: 1, 1: 0, 2: 0, 3: 0, 4: 1}
        assert broker.status().streams[stream.address].partitions == 5

    def test_fewer_partitions_are_refused(self, broker: Broker, stream: Stream) -> None:
        """Nothing is changed then, not even what could be."""
        broker.ensure(stream)
        before = broker.status().streams[stream.address]
        with pytest.raises(OperationFailed) as caught:
            broker.ensure(replace(stream, partitions=1, retention=HOUR))
        assert caught.value.code == "fewer-partitions"
        assert "partitions: 2" in caught.value.hint
        assert broker.status().streams[stream.address] == before

    def test_status_tells_the_settings(self, broker: Broker, stream: Stream) -> None:
        """As declared; what was not said is not told."""
        broker.ensure(stream)
        assert broker.status().streams[stream.address] == StreamStatus(2)
        broker.ensure(replace(stream, retention=HOUR, max_record=Size(2_000_000), compact=True))
        assert broker.status().streams[stream.address] == StreamStatus(
            2, 3_600_000, None, 2_000_000, compact=True
        )

    def test_settings_change_and_go(self, broker: Broker, stream: Stream) -> None:
        """Retention by time, another time, by size, and none again."""
        for retention, by_time, by_size in (
            (HOUR, 3_600_000, None),
            (DAY, 86_400_000, None),
            (Size(10_000_000), None, 10_000_000),
            (None, None, None),
        ):
            broker.ensure(replace(stream, retention=retention))
            seen = broker.status().streams[stream.address]
            assert seen == StreamStatus(2, by_time, by_size)
        broker.ensure(replace(stream, compact=True))
        assert broker.status().streams[stream.address].compact
        broker.ensure(stream)
        assert broker.status().streams[stream.address] == StreamStatus(2)

    def test_a_dropped_stream_is_gone_and_can_be_made_again(
        self, broker: Broker, stream: Stream
    ) -> None:
        """Its records do not come back."""
        broker.ensure(stream)
        broker.log.write(stream.address, [Record(b"old", partition=0)])
        broker.drop(stream)
        assert stream.address not in broker.status().streams
        broker.ensure(stream)
        assert broker.log.ends(stream.address) == {0: Span(0, 0), 1: Span(0, 0)}
        broker.log.write(stream.address, [Record(b"new", partition=0)])
        [got] = broker.log.read(stream.address, {0: 0}, {0: 1})
        assert got.value == b"new"

    def test_dropping_one_that_is_not_there_is_no_error(
        self, broker: Broker, stream: Stream
    ) -> None:
        """Neither before it was made nor twice."""
        broker.drop(stream)
        broker.ensure(stream)
        broker.drop(stream)
        broker.drop(stream)
        assert stream.address not in broker.status().streams
