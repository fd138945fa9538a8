"""Kafka's transactions: batches of records that are there wholly, and once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from millrace.brokers.kafka.failures import Complaints, failure
from millrace.brokers.kafka.log import KafkaLog
from millrace.brokers.kafka.topics import OVERHEAD
from millrace.errors import OperationFailed
from millrace.ports import BATCH_HEADER
from millrace.ports.transactions import Row

#: How long a transaction may take; what a broker allows without being told otherwise.
LONGEST_SECONDS = 900
_OPEN_SECONDS = 60.0
#: Delivery reports are served after so many records.
_SERVED = 5_000


class KafkaTransactions:
    """One producer with a transactional id; see the port."""

    def __init__(self, name: str, settings: Mapping[str, str], largest: int, least: int) -> None:
        self._settings = dict(settings)
        self._name = name
        self._largest = largest
        self._least = least
        self._log = KafkaLog(settings)
        self._producer: Producer | None = None
        self._complaints = Complaints()

    def open(self) -> None:
        """Shut predecessors out; see the port."""
        self.close()
        self._producer = Producer(
            {
                **self._settings,
                "transactional.id": self._name,
                "transaction.timeout.ms": LONGEST_SECONDS * 1000,
                "linger.ms": 20,
                "message.max.bytes": self._largest + OVERHEAD,
                # A topic takes batches up to its largest record and this; none is split.
                "batch.size": min(self._least + OVERHEAD, 1_000_000),
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 1_048_576,
                "log_level": 2,
                "error_cb": self._complaints,
            }
        )
        try:
            self._producer.init_transactions(_OPEN_SECONDS)
        except KafkaException as error:
            raise self._failed(error) from error

    def has(self, mark: str, streams: Iterable[str], since: int) -> bool:
        """Return whether a batch was committed; see the port."""
        wanted = (BATCH_HEADER, mark.encode())
        for stream in streams:
            start = self._log.since(stream, since)
            ends = self._settled(stream)
            if any(wanted in record.headers for record in self._log.read(stream, start, ends)):
                return True
        return False

    def _settled(self, stream: str) -> dict[int, int]:
        """The ends of a stream's partitions, when no transaction is open before them.

        Behind one of another writer nothing can be read, our own batches neither.
        """
        written = KafkaLog({**self._settings, "isolation.level": "read_uncommitted"}).ends(stream)
        until = time.monotonic() + LONGEST_SECONDS + _OPEN_SECONDS
        while True:
            seen = self._log.ends(stream)
            if all(seen[part].end >= span.end for part, span in written.items()):
                return {part: span.end for part, span in written.items()}
            if time.monotonic() > until:
                raise OperationFailed(
                    "no-answer",
                    f"a transaction of another writer of {stream} does not end",
                    "end that writer; its transaction ends with it after a while",
                    transient=True,
                )
            time.sleep(0.1)

    def write(self, mark: str, rows: Iterable[Row]) -> int:
        """Write a batch in one transaction; see the port."""
        producer = self._producer
        if producer is None:
            raise OperationFailed("not-open", f"transactions of {self._name} are not open")
        try:
            producer.begin_transaction()
            count = self._produce(producer, (BATCH_HEADER, mark.encode()), rows)
            producer.commit_transaction()
        except KafkaException as error:
            self.close()
            raise self._failed(error) from error
        except BaseException:
            self.close()
            raise
        return count

    @staticmethod
    def _produce(producer: Producer, mark: tuple[str, bytes], rows: Iterable[Row]) -> int:
        count, produce = 0, producer.produce
        for count, (topic, key, value, headers, partition) in enumerate(rows, 1):
            given: dict[str, Any] = {} if partition is None else {"partition": partition}
            while True:
                try:
                    produce(topic, value, key, headers=[*headers, mark], **given)
                except BufferError:  # the queue is full: what is sent makes room
                    producer.poll(0.1)
                    continue
                break
            if count % _SERVED == 0:
                producer.poll(0)
        return count

    def close(self) -> None:
        """Let go of the broker; a transaction that is open is given up."""
        if self._producer is not None:
            producer, self._producer = self._producer, None
            producer.purge()
            producer.flush(1.0)

    def _failed(self, error: KafkaException) -> OperationFailed:
        cause: KafkaError = error.args[0]
        if cause.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED):
            return OperationFailed(
                "fenced",
                f"another writer of {self._name} has taken over",
                "only one driver may run a job: is this pipeline running twice?",
            )
        return failure(cause, self._settings, self._name)
