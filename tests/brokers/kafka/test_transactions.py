"""Kafka's transactions: what other writers leave open, sizes, and who may write."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

import pytest

from millrace.brokers.kafka import ManagedKafka
from millrace.brokers.kafka.transactions import KafkaTransactions
from millrace.errors import OperationFailed
from millrace.model.quantity import Size
from millrace.model.stream import Stream
from millrace.ports.transactions import Row
from millrace.testing.conformance.log import fresh_stream

LARGEST = 1_000_000


@pytest.fixture
def stream(kafka: ManagedKafka) -> Iterator[Stream]:
    stream = fresh_stream()
    kafka.ensure(stream)
    yield stream
    kafka.drop(stream)


def writer(kafka: ManagedKafka, largest: int = LARGEST, name: str = "") -> KafkaTransactions:
    settings = kafka.status().clients["librdkafka"]
    made = KafkaTransactions(name or f"writer-{uuid4().hex}", settings, largest, largest)
    made.open()
    return made


def rows(stream: Stream, count: int, size: int = 10) -> Iterator[Row]:
    for number in range(count):
        yield stream.address, b"k", str(number).encode().ljust(size), [], 0


def test_a_batch_behind_another_writers_open_transaction_is_found(
    kafka: ManagedKafka, stream: Stream
) -> None:
    """Until that one ends nobody can read what is behind it, though it is committed."""
    other, own = writer(kafka), writer(kafka)
    assert other._producer is not None
    other._producer.begin_transaction()
    other._producer.produce(stream.address, b"open", partition=0)
    assert other._producer.flush(30) == 0
    since = int(time.time() * 1000) - 60_000
    assert own.write("mark 1", rows(stream, 3)) == 3
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(own.has, "mark 1", [stream.address], since)
        with pytest.raises(TimeoutError):
            answer.result(1.0)
        other._producer.commit_transaction()
        assert answer.result(60)
        assert not own.has("mark 2", [stream.address], since)
    for one in (own, other):
        one.close()


def test_batches_are_no_larger_than_the_stream_takes(kafka: ManagedKafka, stream: Stream) -> None:
    """Many records leave at once; together they are larger than one may be."""
    small = 20_000
    kafka.ensure(replace(stream, max_record=Size(small)))
    own = writer(kafka, small)
    assert own.write("mark", rows(stream, 500, small // 4)) == 500
    own.close()
    read = kafka.log.read(stream.address, {0: 0}, {0: 500})
    assert [int(record.value or b"-1") for record in read] == list(range(500))


def test_a_predecessor_is_shut_out(kafka: ManagedKafka, stream: Stream) -> None:
    name = f"writer-{uuid4().hex}"
    old = writer(kafka, name=name)
    assert old.write("mark 1", rows(stream, 1)) == 1
    new = writer(kafka, name=name)
    with pytest.raises(OperationFailed) as caught:
        old.write("mark 2", rows(stream, 1))
    assert caught.value.code == "fenced"
    assert f"another writer of {name} has taken over" in caught.value.message
    assert not caught.value.transient
    new.close()
