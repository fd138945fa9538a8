"""Drains that are stopped or killed in their middle, and go on."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from millrace.errors import OperationFailed
from millrace.model.job import Mode
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


STOPS = """
streams: {raw: {format: text}, lines: {format: text}, fast: {format: text}, slow: {format: text}}
jobs:
  fast: {from: raw, to: fast, sql: SELECT value FROM raw, mode: real-time, checkpoint: 60 s}
  broken: {from: raw, to: slow, python: "code:broken", mode: micro-batch}
  source: {read: in.txt, to: lines}
"""
BROKEN = """
from pyspark.sql import functions as F

def broken(raw):
    inverse = F.udf(lambda value: str(1 // (int(value) - 900)), "string")
    return raw.select(inverse("value").alias("value"))
"""


def test_a_stop_waits_for_all_that_is_there_and_says_what_is_left(lab: Lab) -> None:
    with lab.case(STOPS, code=BROKEN) as case:
        (case.code / "in.txt").write_text("".join(f"{n}\n" for n in range(COUNT)))
        case.start("source")
        case.engine.stop("source", {})
        assert Counter(int(r.value or b"") for r in case.read("lines")) == Counter(range(COUNT))

        case.send("raw", (Record(str(n).encode()) for n in range(800)))
        case.start("fast")
        case.read("fast", 800)
        case.engine.stop("fast", {"raw": {0: 800}})
        progress = case.progress("fast", 800)
        assert progress.positions == {"raw": {0: 800}}
        assert (progress.fates.read, progress.fates.lost_sight) == (800, 0)
        assert Counter(int(r.value or b"") for r in case.read("fast")) == Counter(range(800))

        case.start("fast")  # though its first batch was not in real time
        case.send("raw", [Record(b"800")])
        case.read("fast", 801)
        assert case.engine.status()["fast"].mode is Mode.REAL_TIME
        case.engine.stop("fast", {"raw": {0: 801}})

        case.start("broken")
        case.engine.stop("fast", {"raw": {0: 801}})  # not there, and all was read
        case.send("raw", [Record(b"900")])
        for job in ("broken", "fast"):
            with pytest.raises(OperationFailed, match=f"{job} was not drained") as caught:
                case.engine.stop(job, {"raw": {0: 802}})
            assert caught.value.code == "not-drained"


SUMS = """
streams: {raw: {schema: {n: int}}, sums: {schema: {sum: long}}}
jobs:
  sums:
    from: raw
    to: sums
    mode: real-time
    emit: updates
    sql: SELECT sum(n) AS sum FROM raw
"""


def test_state_goes_on_in_real_time_after_a_drain(lab: Lab) -> None:
    with lab.case(SUMS) as case:
        for number, sent in enumerate(([1, 2], [4], [8]), 1):
            case.send("raw", (Record(f'{{"n": {n}}}'.encode()) for n in sent))
            case.start("sums")
            assert case.engine.status()["sums"].mode is Mode.REAL_TIME
            wait_until(lambda n=number: case.count("sums") >= n, case.engine.status)  # type: ignore[misc]
            case.engine.stop("sums", {"raw": {0: case.count("raw")}})
            found = [json.loads(r.value or b"")["sum"] for r in case.read("sums")]
            assert max(found) == [3, 7, 15][number - 1]


def begin(case: Case, share: float) -> None:
    """Start the jobs and wait until each has written a share of its results, and some more."""
    least = {job: max(share * times * COUNT, case.count(job) + 1) for job, times in RESULTS.items()}
    case.start()
    for job, count in least.items():
        wait_until(lambda j=job, n=count: case.count(j) >= n, job)  # type: ignore[misc]


def test_all_batches_of_a_drain_are_counted(lab: Lab) -> None:
    """Also where they are more than the twenty whose reports Spark keeps."""
    text = """
    streams: {raw: {format: text}, out: {format: text}}
    jobs:
      job: {from: raw, to: out, sql: "SELECT value FROM raw WHERE value > 9", mode: drain,
            options: {maxOffsetsPerTrigger: 10}}
    """
    with lab.case(text) as case:
        case.send("raw", (Record(str(n).encode()) for n in range(300)))
        case.drain()
        fates = lab.engine.status()["job"].progress.fates
        assert (fates.read, fates.used, fates.filtered) == (300, 290, 10)
        assert fates.lost_sight == 0
