"""Limits: large records, results that are too large, and a job that is slower than its input."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from millrace.brokers.kafka.server import kafka_archive
from millrace.engines.spark.classes import spark_archive
from millrace.machine import Folders, Java
from tests.engines.spark.lab import Lab, json_record, objects, wait_until
from tests.memory import memory

pytestmark = [pytest.mark.xdist_group("spark-running"), pytest.mark.timeout(600)]
LARGE = """
defaults: {jobs: {checkpoint: 5 s, from: raw}}
streams:
  raw: {max_record: 11 MB, schema: {id: int, pad: string}, dead_letters: dead}
  dead: {format: raw, max_record: 11 MB}
  large-fast: {max_record: 11 MB}
  large-batch: {max_record: 11 MB}
  small-fast: {}
  small-batch: {}
  grouped: {}
jobs:
  large-fast: {to: large-fast, mode: real-time, sql: "SELECT * FROM raw"}
  large-batch: {to: large-batch, mode: micro-batch, sql: "SELECT * FROM raw"}
  small-fast: {to: small-fast, mode: real-time, sql: "SELECT * FROM raw"}
  small-batch: {to: small-batch, mode: micro-batch, sql: "SELECT * FROM raw"}
  grouped:
    to: grouped
    mode: micro-batch
    emit: updates
    sql: "SELECT id, max(pad) AS pad FROM raw GROUP BY id"
"""


def test_large_records_pass_and_too_large_results_are_letters(lab: Lab) -> None:
    with lab.case(LARGE) as case:
        case.start()
        sizes = (2_000_000, 10_000_000, 10)
        records = [json_record(id=n, pad="x" * size) for n, size in enumerate(sizes)]
        case.send("raw", records)
        wanted = [
            len(json.dumps(json.loads(r.value or b""), separators=(",", ":"))) for r in records
        ]
        for name in ("large-fast", "large-batch"):
            found = [len(record.value or b"") for record in case.read(name, 3)]
            assert sorted(found) == sorted(wanted), name
        for name in ("small-fast", "small-batch", "grouped"):
            [passed] = objects(case.read(name, 1))
            assert passed["id"] == 2, name
        for name in ("small-fast", "small-batch"):
            fates = case.fates(name, 3)
            assert (fates.used, fates.dropped, fates.written) == (1, 2, {name: 1})
        letters = case.read("dead", 6)
        assert len(letters) == 6
        assert all(b"larger" in (x.header("millrace-cause") or b"") for x in letters)


SLOW = """
streams: {raw: {schema: {n: int, pad: string}, partitions: 2}, out: {}}
jobs: {slow: {from: raw, to: out, mode: micro-batch, map: "code:slow"}}
"""
CODE = """
import time

def slow(record):
    time.sleep(0.001)
    return {"n": record["n"]}
"""


def test_a_slow_job_keeps_its_memory_and_lets_the_log_grow(lab: Lab) -> None:
    """400 MB wait in the log; what the job holds of them stays small."""
    count, pad = 40_000, "x" * 10_000
    assert lab.engine.pid is not None
    with lab.case(SLOW, code=CODE) as case:
        case.start()
        case.send("raw", [json_record(n=n, pad=pad) for n in range(1000)])
        case.progress("slow", 1000)
        before = memory(lab.engine.pid)
        case.send("raw", (json_record(n=n, pad=pad) for n in range(count)))
        wait_until(lambda: case.count("out") > 3000, lambda: lab.engine.status()["slow"])
        assert case.count("raw") - case.count("out") > count / 2
        assert memory(lab.engine.pid) - before < count * len(pad) / 2


def test_driver_and_broker_map_the_archives_of_their_classes(
    lab: Lab, java: Java, folders: Folders, jars: Path
) -> None:
    of_driver = psutil.Process(lab.engine.pid).children(recursive=True)
    (machine,) = [process.pid for process in of_driver if process.name() == "java"]
    for pid, archive in (
        (machine, spark_archive(java, folders.cache)),
        (lab.kafka.pid, kafka_archive(java, jars)),
    ):
        assert archive.options
        assert str(archive.place) in Path(f"/proc/{pid}/maps").read_text()
