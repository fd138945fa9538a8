"""One Kafka and one Spark driver for all tests of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.agent.spark import DRIVER
from millrace.brokers.kafka import ManagedKafka
from millrace.engines.spark.classes import spark_archive, write_archive
from millrace.engines.spark.engine import SparkEngine
from millrace.machine import Folders, Java, fetch_jars
from millrace.machine.process import session_members
from tests.engines.spark.lab import Lab


@pytest.fixture(scope="session")
def connector(folders: Folders, java: Java) -> Path:
    """Return the folder of the jars with which Spark reaches Kafka."""
    return fetch_jars(["spark-kafka"], java, folders.cache)[0]


@pytest.fixture(scope="session")
def lab(
    java: Java,
    folders: Folders,
    jars: Path,
    connector: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Lab]:
    """Run a driver beside a Kafka; none of their processes is left."""
    place = tmp_path_factory.mktemp("spark")
    kafka = ManagedKafka(place / "kafka", java, jars)
    write_archive(java, folders.cache, print)
    options = spark_archive(java, folders.cache).options
    engine = SparkEngine(place / "driver", java, [connector], java_options=options, program=DRIVER)
    engine.launch()
    try:
        kafka.start()
        engine.wait()
        pids = [kafka.pid, engine.pid]
        yield Lab(kafka, engine, place)
    finally:
        engine.close()
        kafka.stop()
    assert not any(session_members(pid) for pid in pids if pid is not None)
