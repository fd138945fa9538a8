"""Writes the archive of the classes that a broker loads, with which it is up in half the time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from millrace.brokers.kafka.broker import ManagedKafka
from millrace.brokers.kafka.server import kafka_archive
from millrace.machine import Java
from millrace.model.stream import Stream
from millrace.ports import Record


def write_archive(java: Java, jars: Path, say: Callable[[str], None]) -> None:
    """Write it if that was never tried; failing does no harm."""

    def run(folder: Path, options: tuple[str, ...]) -> None:
        broker = ManagedKafka(folder / "kafka", java, jars, java_options=options)
        broker.start()
        try:
            broker.ensure(Stream("first"))
            broker.log.write("first", [Record(b"record")])
        finally:
            broker.stop()

    kafka_archive(java, jars).write(
        run, lambda: say("preparing Kafka, once: it takes half the time to start then")
    )
