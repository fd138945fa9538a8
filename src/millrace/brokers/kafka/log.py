"""Kafka as a log."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from millrace.brokers.kafka.failures import failure, metadata
from millrace.brokers.kafka.readers import LARGEST, Reader, Readers
from millrace.brokers.kafka.topics import OVERHEAD
from millrace.errors import OperationFailed
from millrace.ports import Record, Span

#: How long a call to the broker may take, in seconds.
LIMIT = 30.0
#: So many readers of a broker are kept by who asks often.
KEPT = 4
#: So many bytes of records are held in memory at once.
_MUCH = 64 * 1024 * 1024


class KafkaLog:
    """Reads and writes topics; every call opens and closes its own client, unless some are kept."""

    def __init__(self, settings: Mapping[str, str], *, keep: int = 0) -> None:
        self._settings = dict(settings)
        self._readers = Readers(settings, keep)

    def write(self, stream: str, records: Iterable[Record]) -> int:
        """Append records; see the port."""
        with self._reader(stream):
            pass  # the producer would wait half a minute for a topic that is not there
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(error)

        count = 0
        try:
            producer = self._producer()
            for record in records:
                self._produce(producer, stream, record, delivered)
                count += 1
                if errors:
                    break
            left = producer.flush(LIMIT * 4)
        except KafkaException as error:
            raise failure(error.args[0], self._settings, stream) from error
        if errors or left:
            first = errors[0] if errors else KafkaError(KafkaError._MSG_TIMED_OUT)
            raise failure(first, self._settings, stream)
        return count

    def _producer(self) -> Producer:
        return Producer(
            {
                **self._settings,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.max.bytes": LARGEST,
                # A topic takes batches up to max_record and this; librdkafka splits none.
                "batch.size": OVERHEAD,
                "queue.buffering.max.kbytes": 1_048_576,
                "log_level": 2,
            }
        )

    @staticmethod
    def _produce(producer: Producer, stream: str, record: Record, delivered: Any) -> None:
        given: dict[str, Any] = {} if record.partition is None else {"partition": record.partition}
        if record.time is not None:
            given["timestamp"] = record.time
        if record.headers:
            given["headers"] = list(record.headers)
        while True:
            try:
                producer.produce(
                    stream, value=record.value, key=record.key, on_delivery=delivered, **given
                )
            except BufferError:  # the queue is full: what is sent makes room
                producer.poll(0.1)
                continue
            producer.poll(0)
            return

    def read(
        self,
        stream: str,
        start: Mapping[int, int],
        until: Mapping[int, int] | None = None,
        wait: float = 1.0,
    ) -> Iterator[Record]:
        """Yield records from some positions on; see the port."""
        if until is not None and all(at >= until.get(part, 0) for part, at in start.items()):
            return
        with self._reader(stream) as (consumer, partitions):
            if unknown := sorted(set(start) - set(partitions)):
                raise OperationFailed(
                    "no-partition",
                    f"{stream} has no partition {unknown[0]}: it has {len(partitions)}",
                    "was the topic made again with fewer? ask for its ends",
                )
            yield from self._taken(consumer, stream, start, until, wait)

    def _taken(
        self,
        consumer: Consumer,
        stream: str,
        start: Mapping[int, int],
        until: Mapping[int, int] | None,
        wait: float,
    ) -> Iterator[Record]:
        """Read with a consumer that is there, of partitions that are there."""
        open_ = {part for part, at in start.items() if until is None or at < until.get(part, 0)}
        consumer.assign([TopicPartition(stream, part, start[part]) for part in sorted(open_)])
        last = time.monotonic()
        while open_:
            batch = consumer.consume(1, timeout=min(wait, 0.2))
            batch += consumer.consume(1000, timeout=0)
            batch = [it for it in batch if it.topic() in (stream, None)]  # not of one before
            found = [self._record(message, start, until, open_) for message in batch]
            for record in found:
                if record is not None:
                    yield record
            if any(found):
                last = time.monotonic()
            elif open_ and time.monotonic() - last > (wait if until is None else LIMIT):
                if until is None:
                    return
                raise OperationFailed(
                    "no-answer", f"{stream} was not read to its end in {LIMIT:.0f} s",
                    "is the broker up?", transient=True,
                )  # fmt: skip

    @contextmanager
    def _reader(self, stream: str) -> Iterator[tuple[Consumer, list[int]]]:
        """Give a consumer and the stream's partitions; raises if the stream is not there."""
        reader, whole = None, False
        try:
            reader, topic = self._reached(stream)
            if topic.error is not None:
                raise failure(topic.error, self._settings, stream)
            yield reader.consumer, sorted(topic.partitions)
            whole = True
        except KafkaException as error:
            raise failure(error.args[0], self._settings, stream) from error
        finally:
            if whole and reader is not None:
                self._readers.give_back(reader)
            elif reader is not None:
                reader.consumer.close()

    def _reached(self, stream: str) -> tuple[Reader, Any]:
        """A reader and what the broker says of a stream; one that was kept may have lost it."""
        if (kept := self._readers.kept()) is not None:
            with suppress(KafkaException):
                return kept, metadata(kept.consumer, kept.complaints, stream).topics[stream]
            kept.consumer.close()
        made = self._readers.made()
        try:
            return made, metadata(made.consumer, made.complaints, stream).topics[stream]
        except BaseException:
            made.consumer.close()
            raise

    def _record(
        self,
        message: Message,
        start: Mapping[int, int],
        until: Mapping[int, int] | None,
        open_: set[int],
    ) -> Record | None:
        """The record of a message, unless it was not asked for; notes ends of partitions.

        One before its start is seen when the start lies behind the partition's end.
        """
        error, part = message.error(), message.partition()
        position = message.offset() or 0
        assert part is not None  # noqa: S101 - of an assigned partition
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise failure(error, self._settings, message.topic() or "")
            if until is not None and position >= until.get(part, 0):
                open_.discard(part)
            return None
        if until is not None and position >= until.get(part, 0) - 1:
            open_.discard(part)
            if position >= until.get(part, 0):
                return None
        return record_of(message, part, position) if position >= start[part] else None

    def ends(self, stream: str) -> Mapping[int, Span]:
        """Return what each partition holds; see the port."""
        with self._reader(stream) as (consumer, partitions):
            return {part: _span(consumer, stream, part) for part in partitions}

    def since(self, stream: str, time: int) -> Mapping[int, int]:
        """Return the first positions of a time; see the port."""
        with self._reader(stream) as (consumer, partitions):
            return _since(consumer, stream, partitions, time)

    def last(self, stream: str, time: int, most: int) -> Sequence[Record] | None:
        """Return what is there from the positions of a time on; see the port."""
        with self._reader(stream) as (consumer, partitions):
            start = _since(consumer, stream, partitions, time)
            ends = {part: _span(consumer, stream, part).end for part in partitions}
            if sum(max(end - start[part], 0) for part, end in ends.items()) > most:
                return None
            found, size = [], 0
            for record in self._taken(consumer, stream, start, ends, LIMIT):
                size += len(record.value or b"")
                if size > _MUCH:
                    return None
                found.append(record)
            return found


def _span(consumer: Consumer, stream: str, part: int) -> Span:
    return Span(*consumer.get_watermark_offsets(TopicPartition(stream, part), LIMIT))


def _since(consumer: Consumer, stream: str, partitions: list[int], time: int) -> dict[int, int]:
    """The first positions of a time; the end of a partition that has none."""
    asked = [TopicPartition(stream, part, time) for part in partitions]
    return {
        item.partition: item.offset
        if item.offset not in (OFFSET_END, -1)
        else _span(consumer, stream, item.partition).end
        for item in consumer.offsets_for_times(asked, LIMIT)
    }


class KeptLogs:
    """Gives the logs of brokers to a process that asks them often."""

    def __init__(self) -> None:
        self._logs: dict[frozenset[tuple[str, str]], KafkaLog] = {}
        self._lock = Lock()

    def __call__(self, settings: Mapping[str, str]) -> KafkaLog:
        """Return the log that is reached by a client's settings; the same for the same."""
        with self._lock:
            return self._logs.setdefault(frozenset(settings.items()), KafkaLog(settings, keep=KEPT))


def record_of(message: Message, partition: int, position: int) -> Record:
    """Return a message as a record."""
    key, value = message.key(), message.value()
    kind, stamp = message.timestamp()
    pairs: Any = message.headers() or ()  # librdkafka gives a list of pairs, never a dict
    headers = tuple((name, bytes(item or b"")) for name, item in pairs)
    return Record(
        value,
        key,
        headers,
        partition,
        position,
        stamp if kind else None,
    )
