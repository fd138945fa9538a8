"""Where the rows of a batch go: to Kafka by Spark, to other brokers by their logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Protocol

from pyspark.sql import DataFrame

from millrace.engines.spark.once import rows_of
from millrace.engines.spark.outside.bridge import outside
from millrace.engines.spark.outside.carried import by_spark, client_of, plugin_of
from millrace.engines.spark.prepared import Compiled
from millrace.model.stream import Stream
from millrace.ports import Log, Record, Row


class Writing(Protocol):
    """A broker that rows go to, and the topics that it has of them."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it has."""
        ...

    def write(self, rows: DataFrame) -> None:
        """Write rows, all of them of its topics; returns when the broker has them."""
        ...


@dataclass(frozen=True, slots=True)
class KafkaWriting:
    """A Kafka, and how it is reached."""

    options: Mapping[str, str]
    topics: tuple[str, ...]

    def write(self, rows: DataFrame) -> None:
        """Let Spark write; see `Writing`."""
        rows.write.format("kafka").options(**self.options).save()


@dataclass(frozen=True, slots=True)
class LogWriting:
    """Another broker, by its log: rows pass the driver."""

    log: Log
    topics: tuple[str, ...]

    def write(self, rows: DataFrame) -> None:
        """Write the rows of each topic in their order; see `Writing`."""
        found = sorted(rows_of(rows.toArrow()), key=itemgetter(0))
        for topic, of_topic in groupby(found, key=itemgetter(0)):
            self.log.write(topic, _records(of_topic))


def _records(rows: Iterator[Row]) -> Iterator[Record]:
    for _, key, value, headers, partition in rows:
        yield Record(value, key, tuple((k, v or b"") for k, v in headers), partition)


def sinks(compiled: Compiled) -> list[tuple[Stream, Mapping[str, str]]]:
    """Return the streams that a query writes by Spark, each with how its broker is reached."""
    return [(s, it) for s, it in _all(compiled) if by_spark(compiled.order, s)]


def _all(compiled: Compiled) -> list[tuple[Stream, Mapping[str, str]]]:
    streams = {**compiled.target.outputs}
    streams |= {stream.name: stream for stream in compiled.target.letters.values()}
    brokers = compiled.order.brokers
    return [
        (stream, brokers[stream.site or ""])
        for stream in streams.values()
        if not outside(stream.name)
    ]


def writings_of(compiled: Compiled, producer: Mapping[str, str]) -> list[Writing]:
    """Return the brokers that a query writes to: other ones than Kafka come first."""
    kafka: list[Writing] = [
        KafkaWriting(_producer(compiled, streams, {**producer, **settings}), _addresses(streams))
        for settings, streams in _by_broker(sinks(compiled))
    ]
    order = compiled.order
    others = [(s, client_of(order, s)) for s, _ in _all(compiled) if not by_spark(order, s)]
    logs: list[Writing] = [
        LogWriting(plugin_of(order, streams[0]).log(settings), _addresses(streams))
        for settings, streams in _by_broker(others)
    ]
    return [*logs, *kafka]


def by_brokers(compiled: Compiled) -> int:
    """Return how many brokers the query writes to."""
    return len(_by_broker(_all(compiled)))


def _by_broker(
    sinks: Sequence[tuple[Stream, Mapping[str, str]]],
) -> list[tuple[dict[str, str], list[Stream]]]:
    found: dict[tuple[tuple[str, str], ...], list[Stream]] = {}
    for stream, settings in sinks:
        found.setdefault(tuple(sorted(settings.items())), []).append(stream)
    return [(dict(settings), streams) for settings, streams in found.items()]


def _addresses(streams: Sequence[Stream]) -> tuple[str, ...]:
    return tuple(stream.address for stream in streams)


def _producer(
    compiled: Compiled, streams: Sequence[Stream], settings: Mapping[str, str]
) -> dict[str, str]:
    """The settings of a producer that writes streams."""
    largest = max(compiled.target.largest(stream) for stream in streams)
    sizes = {
        "max.request.size": str(max(largest + 1024 * 1024, 2 * 1024 * 1024)),
        "buffer.memory": str(max(32 * 1024 * 1024, 4 * largest)),
    }
    return {
        **{f"kafka.{name}": value for name, value in {**sizes, **settings}.items()},
        "includeHeaders": "true",
    }
