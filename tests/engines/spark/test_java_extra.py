"""A pipeline on the Java that pip brings (the extra `java`), for machines that have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.brokers.kafka import ManagedKafka
from millrace.engines.spark.engine import SparkEngine
from millrace.machine import Folders, find_java
from millrace.ports import Record
from tests.engines.spark.lab import Lab

PIPELINE = """
streams:
  raw: {schema: {n: long}}
  out: {}
jobs:
  double: {from: raw, to: out, sql: "SELECT n * 2 AS n FROM raw"}
"""


@pytest.mark.timeout(300)
def test_a_pipeline_runs_on_the_java_of_pip(
    folders: Folders, jars: Path, connector: Path, tmp_path: Path
) -> None:
    java = find_java(folders.cache, environment={})  # neither JAVA_HOME nor PATH
    assert "java-shim" in str(java.home)
    kafka = ManagedKafka(tmp_path / "kafka", java, jars)
    engine = SparkEngine(tmp_path / "driver", java, [connector])
    try:
        engine.launch()
        kafka.start()
        with Lab(kafka, engine, tmp_path).case(PIPELINE) as case:
            case.start()
            case.send("raw", [Record(b'{"n": %d}' % n) for n in range(10)])
            found = case.read("out", 10)
        assert sorted(record.value or b"" for record in found) == sorted(
            b'{"n":%d}' % (2 * n) for n in range(10)
        )
    finally:
        engine.close()
        kafka.stop()
