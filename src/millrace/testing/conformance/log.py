"""What a log does, whatever broker is behind it."""

# ruff: noqa: S101 - these are tests, though they are shipped

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from millrace.errors import OperationFailed
from millrace.model.stream import Stream
from millrace.ports import Broker, Record, Span
from millrace.testing.conformance.claims import Conformance, behaviour

#: 2024-01-01, in milliseconds.
SOME_TIME = 1_704_067_200_000
LIMIT = 20.0


def fresh_stream(partitions: int = 1) -> Stream:
    """Return a stream whose name nobody used yet."""
    return Stream(name=f"conformance-{uuid.uuid4().hex[:12]}", partitions=partitions)


class LogConformance(Conformance, suite=True):
    """Tests of the port `Log`; a subclass gives the fixture `broker`, which serves.

    `records`: all that a record has comes back. `order` and `positions`: where records are, and
    reading from there. `waiting`: reading without an end. `times`: `since` and `last`.
    `partitions`: the same for streams of several. `missing`: a stream that nobody made is told.
    """

    @pytest.fixture
    def streams(self, broker: Broker) -> Iterator[Callable[..., str]]:
        """Return a function that makes a fresh stream and gives its name; all go at the end."""
        made: list[Stream] = []

        def make(partitions: int = 1) -> str:
            made.append(fresh_stream(partitions))
            broker.ensure(made[-1])
            return made[-1].address

        yield make
        for stream in made:
            broker.drop(stream)

    @behaviour("records")
    def test_what_is_written_is_read_back(
        self, broker: Broker, streams: Callable[..., str]
    ) -> None:
        """Keys, headers, values and times come back, the empty and the absent ones too."""
        name = streams()
        sent = [
            Record(b"value", b"key", (("h", b"1"), ("g", b""), ("h", b"2")), 0, 0, SOME_TIME),
            Record(b"", b"", (), 0, 1, SOME_TIME + 1),
            Record(None, b"gone", (), 0, 2, SOME_TIME + 2),
            Record(bytes(range(256)), None, (("é", bytes(range(256))),), 0, 3, SOME_TIME + 3),
        ]
        assert broker.log.write(name, sent) == len(sent)
        got = list(broker.log.read(name, {0: 0}, {0: len(sent)}))
        assert got == sent
        assert got[0].header("h") == b"2"

    @behaviour("records")
    def test_a_record_without_a_time_gets_one(
        self, broker: Broker, streams: Callable[..., str]
    ) -> None:
        """It is the time of writing."""
        name = streams()
        before = int(time.time() * 1000)
        broker.log.write(name, [Record(b"now")])
        [got] = broker.log.read(name, {0: 0}, {0: 1})
        assert got.time is not None
        assert before - 1000 <= got.time <= int(time.time() * 1000) + 1000

    @behaviour("order")
    def test_order_is_kept(self, broker: Broker, streams: Callable[..., str]) -> None:
        """Records come as they were written, at positions without gaps."""
        name = streams()
        assert broker.log.write(name, (Record(b"%d" % n) for n in range(3000))) == 3000
        got = list(broker.log.read(name, {0: 0}, {0: 3000}))
        assert [int(record.value or b"") for record in got] == list(range(3000))
        assert [record.position for record in got] == list(range(3000))

    @behaviour("partitions")
    def test_order_is_kept_in_each_partition(
        self, broker: Broker, streams: Callable[..., str]
    ) -> None:
        """Records of a partition come as they were written, at positions without gaps."""
        name = streams(3)
        broker.log.write(name, (Record(b"%d" % n, partition=n % 3) for n in range(3000)))
        got: dict[int | None, list[Record]] = {0: [], 1: [], 2: []}
        for record in broker.log.read(
            name, dict.fromkeys(range(3), 0), dict.fromkeys(range(3), 1000)
        ):
            got[record.partition].append(record)
        for part, records in got.items():
            assert [record.position for record in records] == list(range(1000))
            assert [int(record.value or b"") % 3 for record in records] == [part] * 1000
            assert [int(record.value or b"") // 3 for record in records] == list(range(1000))

    @behaviour("partitions")
    def test_a_key_decides_the_partition(self, broker: Broker, streams: Callable[..., str]) -> None:
        """Records of one key are in one partition, also those of a later writer."""
        name = streams(4)
        keys = [b"key-%d" % n for n in range(32)]
        for some in (keys, keys[::-1]):
            broker.log.write(name, [Record(b"", key) for key in some])
        until = {part: span.end for part, span in broker.log.ends(name).items()}
        where: dict[bytes | None, set[int | None]] = {}
        for record in broker.log.read(name, dict.fromkeys(until, 0), until):
            where.setdefault(record.key, set()).add(record.partition)
        assert set(where) == set(keys)
        assert all(len(parts) == 1 for parts in where.values())
        assert len(set.union(*where.values())) > 1

    @behaviour("positions")
    def test_reading_begins_and_ends_at_positions(
        self, broker: Broker, streams: Callable[..., str]
    ) -> None:
        """`until` is not read itself."""
        name = streams()
        broker.log.write(name, (Record(b"%d" % n) for n in range(10)))

        def read(start: dict[int, int], until: dict[int, int]) -> list[int]:
            return [record.position for record in broker.log.read(name, start, until)]

        assert read({0: 3}, {0: 5}) == [3, 4]
        assert read({0: 9}, {0: 10}) == [9]
        assert read({0: 5}, {0: 5}) == []
        assert read({0: 10}, {0: 10}) == []
        assert read({}, {}) == []

    @behaviour("partitions")
    def test_only_partitions_that_are_asked_for_are_read(
        self, broker: Broker, streams: Callable[..., str]
    ) -> None:
        """Each from its own position to its own end."""
        name = streams(2)
        broker.log.write(name, (Record(b"%d" % n, partition=n % 2) for n in range(20)))

        def read(start: dict[int, int], until: dict[int, int]) -> list[tuple[int | None, int]]:
            return sorted((r.partition, r.position) for r in broker.log.read(name, start, until))

        assert read({0: 3, 1: 8}, {0: 5, 1: 10}) == [(0, 3), (0, 4), (1, 8), (1, 9)]
        assert read({1: 9}, {0: 10, 1: 10}) == [(1, 9)]
        assert read({0: 5, 1: 0}, {0: 5, 1: 1}) == [(1, 0)]

    @behaviour("positions")
    def test_a_partition_that_is_not_there_is_told(
        self, broker: Broker, streams: Callable[..., str]
    ) -> None:
        """By reading, and by writing to it."""
        name = streams()
        with pytest.raises(OperationFailed) as caught:
            list(broker.log.read(name, {0: 0, 7: 0}))
        assert caught.value.code == "no-partition"
        with pytest.raises(OperationFailed):
            broker.log.write(name, [Record(b"", partition=7)])

    @behaviour("waiting")
    def test_reading_without_an_end_stops_when_nothing_comes(
        self, broker: Broker, streams: Callable[..., str]
    ) -> None:
        """It waits as long as it was told, then ends."""
        name = streams()
        broker.log.write(name, [Record(b"1"), Record(b"2")])
        begun = time.monotonic()
        assert [record.value for record in broker.log.read(name, {0: 0}, wait=0.5)] == [b"1", b"2"]
        assert 0.5 <= time.monotonic() - begun < LIMIT

    @behaviour("waiting")
    def test_a_reader_sees_what_comes_while_it_waits(
        self, broker: Broker, streams: Callable[..., str]
    ) -> None:
        """Records that are written later are read, if they come in time."""
        name = streams()
        broker.log.write(name, [Record(b"early")])
        reader = iter(broker.log.read(name, {0: 0}, wait=LIMIT))
        assert next(reader).value == b"early"
        writer = threading.Thread(target=broker.log.write, args=(name, [Record(b"late")]))
        writer.start()
        assert next(reader).value == b"late"
        writer.join(LIMIT)
        assert not writer.is_alive()

    @behaviour("positions")
    def test_a_position_behind_the_end_reads_nothing_earlier(
        self, broker: Broker, streams: Callable[..., str]
    ) -> None:
        """As after a stream was made again: old records are not taken for new ones."""
        name = streams()
        broker.log.write(name, [Record(b"1"), Record(b"2")])
        assert list(broker.log.read(name, {0: 1000}, wait=0.3)) == []

    @behaviour("positions")
    def test_a_reader_may_leave_early(self, broker: Broker, streams: Callable[..., str]) -> None:
        """Nothing is lost for the next one."""
        name = streams()
        broker.log.write(name, (Record(b"%d" % n) for n in range(100)))
        for _ in range(2):
            assert next(iter(broker.log.read(name, {0: 0}))).value == b"0"

    @behaviour("positions")
    def test_ends_tell_what_is_there(self, broker: Broker, streams: Callable[..., str]) -> None:
        """Positions count from the first record."""
        name = streams()
        assert broker.log.ends(name) == {0: Span(0, 0)}
        broker.log.write(name, [Record(b"")] * 3)
        assert broker.log.ends(name) == {0: Span(0, 3)}

    @behaviour("partitions")
    def test_ends_and_times_are_told_of_each_partition(
        self, broker: Broker, streams: Callable[..., str]
    ) -> None:
        """An empty one is empty, and begins at its end."""
        name = streams(2)
        assert broker.log.ends(name) == {0: Span(0, 0), 1: Span(0, 0)}
        broker.log.write(name, [Record(b"", partition=1, time=SOME_TIME)] * 3)
        assert broker.log.ends(name) == {0: Span(0, 0), 1: Span(0, 3)}
        assert broker.log.since(name, SOME_TIME) == {0: 0, 1: 0}
        assert broker.log.since(name, SOME_TIME + 1) == {0: 0, 1: 3}
        found = broker.log.last(name, SOME_TIME, 3)
        assert found is not None
        assert [(record.partition, record.position) for record in found] == [(1, 0), (1, 1), (1, 2)]

    @behaviour("times")
    def test_since_finds_the_first_position_of_a_time(
        self, broker: Broker, streams: Callable[..., str]
    ) -> None:
        """Where there is none, that is the end."""
        name = streams()
        broker.log.write(name, [Record(b"", time=SOME_TIME + 10 * n) for n in range(5)])
        assert broker.log.since(name, SOME_TIME - 1) == {0: 0}
        assert broker.log.since(name, SOME_TIME + 20) == {0: 2}
        assert broker.log.since(name, SOME_TIME + 21) == {0: 3}
        assert broker.log.since(name, SOME_TIME + 41) == {0: 5}

    @behaviour("times")
    def test_last_gives_what_is_there_since_a_time_unless_it_is_much(
        self, broker: Broker, streams: Callable[..., str]
    ) -> None:
        """From the positions of `since` on; nothing where nothing came since."""
        name = streams()
        broker.log.write(name, [Record(b"", time=SOME_TIME + 10 * n) for n in range(6)])
        found = broker.log.last(name, SOME_TIME + 30, 3)
        assert found is not None
        assert [record.position for record in found] == [3, 4, 5]
        assert broker.log.last(name, SOME_TIME + 30, 2) is None
        assert broker.log.last(name, SOME_TIME + 51, 0) == []

    @behaviour("missing")
    def test_a_stream_that_is_not_there_is_told(self, broker: Broker) -> None:
        """By all five methods, and soon."""
        name = fresh_stream().address
        begun = time.monotonic()
        for use in (
            lambda: broker.log.write(name, [Record(b"")]),
            lambda: list(broker.log.read(name, {0: 0})),
            lambda: broker.log.ends(name),
            lambda: broker.log.since(name, SOME_TIME),
            lambda: broker.log.last(name, SOME_TIME, 1),
        ):
            with pytest.raises(OperationFailed) as caught:
                use()
            assert caught.value.code == "no-stream"
            assert name in caught.value.message
            assert caught.value.hint
        assert time.monotonic() - begun < LIMIT
