"""One Kafka and one Spark driver for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.brokers.kafka import ManagedKafka
from millrace.engines.spark.engine import SparkEngine
from millrace.machine import Folders, Java, fetch_jars
from millrace.machine.process import session_members
from tests.engines.spark.lab import Lab


@pytest.fixture(scope="session")
def connector(folders: Folders, java: Java) -> Path:
    """Return the folder of the jars with which Spark reaches Kafka."""
    return fetch_jars(["spark-kafka"], java, folders.cache)[0]


@pytest.fixture(scope="module")
def lab(
    kafka: ManagedKafka, java: Java, connector: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """Run a driver beside the module's Kafka; none of its processes is left."""
    place = tmp_path_factory.mktemp("spark")
    engine = SparkEngine(place / "driver", java, [connector])
    engine.wait()
    pid = engine.pid
    assert pid is not None
    try:
        yield Lab(kafka, engine, place)
    finally:
        engine.close()
        left = session_members(pid)
        assert left == []
