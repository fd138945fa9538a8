"""`overload: drop-oldest`: a job that is behind skips what is too old, and counts it."""

from __future__ import annotations

import time

import pytest

from millrace.model.job import Mode
from millrace.ports import Record
from tests.engines.spark.lab import Lab, balanced, json_record, objects

pytestmark = [pytest.mark.xdist_group("spark-state"), pytest.mark.timeout(600)]
SKIPS = """
defaults: {jobs: {from: raw, overload: {policy: drop-oldest, at: 1 min}}}
streams:
  raw: {schema: {id: int}, partitions: 2, dead_letters: dead}
  dead: {format: raw}
  sql: {}
  map: {}
  sums: {}
jobs:
  sql: {to: sql, sql: "SELECT id FROM raw"}
  map: {to: map, map: "code:same"}
  sums: {to: sums, emit: updates, sql: "SELECT count(*) AS n, sum(id) AS total FROM raw"}
"""


def test_what_is_too_old_is_counted_and_skipped(lab: Lab) -> None:
    now = int(time.time() * 1000)
    old = [json_record(id=n).value for n in range(50)]
    new = [json_record(id=n).value for n in range(50, 80)]
    with lab.case(SKIPS, code="def same(record):\n    return record") as case:
        case.send("raw", [Record(value, time=now - 3_600_000) for value in old])
        case.send("raw", [Record(value, time=now + 600_000) for value in new])
        case.send("raw", [Record(b"bad", time=now + 600_000)])
        facts = case.examine()
        assert {fact.mode for fact in facts.values()} == {Mode.MICRO_BATCH}
        assert "age of records" in " ".join(facts["sql"].reasons)
        case.start()
        for job in ("sql", "map"):
            assert [item["id"] for item in objects(case.read(job, 30))] == list(range(50, 80)), job
        for job in case.pipeline.jobs:
            fates = case.fates(job, 81)
            assert (fates.read, fates.dropped, fates.malformed) == (81, 50, 1), job
            assert balanced(fates), job
        last = objects(case.read("sums", 1))[-1]
        assert (last["n"], last["total"]) == (30, sum(range(50, 80)))
