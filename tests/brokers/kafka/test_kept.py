"""Readers that are kept for the next: what one read is not seen by another."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from millrace.brokers.kafka import KeptLogs, ManagedKafka
from millrace.brokers.kafka import readers as kept
from millrace.brokers.kafka.readers import Readers
from millrace.errors import OperationFailed
from millrace.model.stream import Stream
from millrace.ports import Record
from millrace.testing.conformance.log import fresh_stream


@pytest.fixture
def streams(kafka: ManagedKafka) -> Iterator[list[Stream]]:
    found = [fresh_stream() for _ in range(3)]
    kafka.ensure(*found)
    yield found
    for stream in found:
        kafka.drop(stream)


def values(records: object) -> list[bytes | None]:
    assert records is not None
    return sorted(record.value or b"" for record in records)  # type: ignore[attr-defined]


def test_each_reads_its_own_stream_whoever_read_before(
    kafka: ManagedKafka, streams: list[Stream]
) -> None:
    """Many at once, by few readers, some of which are left in the middle of a stream."""
    logs, settings = KeptLogs(), kafka.status().clients["librdkafka"]
    log = logs(settings)
    assert logs(dict(settings)) is log
    for number, stream in enumerate(streams):
        log.write(stream.address, [Record(f"{number}-{n}".encode()) for n in range(200)])
    wanted = [sorted(f"{number}-{n}".encode() for n in range(200)) for number in range(3)]

    def read(turn: int) -> None:
        number = turn % 3
        address = streams[number].address
        if turn % 5 == 0:
            starts = dict.fromkeys(log.ends(address), 0)
            next(iter(log.read(address, starts)))  # left open: closed, not kept
        assert log.last(address, 0, 100) is None  # too much: nothing of it was taken
        assert values(log.last(address, 0, 1000)) == wanted[number]

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(read, range(30)))


def test_one_is_kept_and_then_closed(kafka: ManagedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "KEPT_SECONDS", 0.5)
    readers = Readers(kafka.status().clients["librdkafka"], keep=1)
    first, second = readers.made(), readers.made()
    assert readers.kept() is None
    readers.give_back(first)
    readers.give_back(second)  # one is kept already
    with pytest.raises(RuntimeError, match="closed"):
        second.consumer.assignment()
    assert readers.kept() is first
    assert first.consumer.assignment() == []
    readers.give_back(first)
    until = time.monotonic() + 30
    while readers._kept:
        assert time.monotonic() < until, "it is not closed"
        time.sleep(0.05)
    assert readers.kept() is None


def test_one_that_failed_is_not_kept(kafka: ManagedKafka) -> None:
    log = KeptLogs()(kafka.status().clients["librdkafka"])
    with pytest.raises(OperationFailed, match="no topic"):
        log.ends("not-there")
    assert log._readers._kept == []
