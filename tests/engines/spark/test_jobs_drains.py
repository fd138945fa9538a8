"""Drains that are stopped or killed in their middle, and go on."""

from __future__ import annotations

from collections import Counter

import pytest

from millrace.ports import JobState, Record
from tests.engines.spark.lab import Case, Lab, wait_until

pytestmark = [pytest.mark.xdist_group("spark-running"), pytest.mark.timeout(600)]
COUNT = 6_000
#: How many results each job gives for a record.
RESULTS = {"once": 1, "twice": 2}
DRAINS = """
defaults:
  streams: {partitions: 2, format: text}
  jobs: {from: raw, mode: drain, options: {maxOffsetsPerTrigger: 1000}}
streams: {raw: {}, once: {}, twice: {}}
jobs:
  once: {to: once, python: "code:once"}
  twice: {to: twice, map: "code:twice"}
"""
#: A millisecond for each record, so that both jobs have a middle.
CODE = """
import time
from pyspark.sql import functions as F

def slowly(value):
    time.sleep(0.001)
    return value

def once(raw):
    return raw.select(F.udf(slowly, "string")("value").alias("value"))

def twice(record):
    return [slowly(record["value"])] * 2
"""


def test_drains_go_on_where_they_ended(lab: Lab) -> None:
    """Neither a planned stop nor kill -9 loses or repeats a result, those in pairs included."""
    with lab.case(DRAINS, code=CODE) as case:
        case.send("raw", (Record(str(n).encode(), b"k%d" % (n % 7)) for n in range(COUNT)))
        begin(case, 0.1)
        case.stop()
        assert {lab.engine.status()[job].state for job in RESULTS} == {JobState.STOPPED}
        begin(case, 0.4)
        lab.engine.kill()
        assert all(case.count(job) < times * COUNT for job, times in RESULTS.items())
        case.drain()
        for job, times in RESULTS.items():
            found = Counter(int(record.value or b"") for record in case.read(job))
            assert found == Counter(dict.fromkeys(range(COUNT), times)), job


def begin(case: Case, share: float) -> None:
    """Start the jobs and wait until each has written a share of its results, and some more."""
    least = {job: max(share * times * COUNT, case.count(job) + 1) for job, times in RESULTS.items()}
    case.start()
    for job, count in least.items():
        wait_until(lambda j=job, n=count: case.count(j) >= n, job)  # type: ignore[misc]
