"""Farms: replicas of a function, and the order of what they give."""

from __future__ import annotations

from collections import Counter, defaultdict
from textwrap import dedent

import pytest

from millrace.engines.spark.farm import in_turn
from millrace.model.job import Mode
from millrace.ports import Record, origin_of
from millrace.spec import load_text
from tests.engines.spark.lab import Lab, json_record, objects

pytestmark = [pytest.mark.xdist_group("spark-state"), pytest.mark.timeout(600)]
COUNT = 4_000
FARMS = """
defaults: {streams: {partitions: 2}, jobs: {from: raw, mode: drain, replicas: 4, map: "code:slow"}}
streams:
  raw: {schema: {id: int}, dead_letters: dead}
  dead: {format: raw}
  none: {}
  key: {}
  preserve: {partitions: 3}
jobs:
  none: {to: none, order: none}
  key: {to: key, order: key}
  preserve: {to: preserve, order: preserve, options: {maxOffsetsPerTrigger: 1500}}
"""
CODE = """
import time

def slow(record):
    if record["id"] % 97 == 0:
        time.sleep(0.002)
    return [record] * (record["id"] % 3)
"""


def test_replicas_share_the_work_and_keep_the_order_they_promise(lab: Lab) -> None:
    with lab.case(FARMS, code=CODE) as case:
        records = [json_record(f"k{n % 11}", id=n) for n in range(COUNT)]
        case.send("raw", [*records, Record(b"bad", b"k1")])
        assert {facts.mode for facts in case.examine().values()} == {Mode.DRAIN}
        case.drain()
        wanted = Counter({n: n % 3 for n in range(COUNT) if n % 3})
        for job in case.pipeline.jobs:
            found = Counter(item["id"] for item in objects(case.read(job)))
            assert found == wanted, job
            assert case.fates(job, COUNT + 1).malformed == 1
        assert falls(case.read("key"), by_key=True) == 0
        assert falls(case.read("preserve"), by_key=False) == 0
        assert falls(case.read("none"), by_key=False) > 0
        assert [record.value for record in case.read("dead")] == [b"bad"] * 3


def test_only_functions_are_dealt_out() -> None:
    """Other jobs with replicas write in turn, whatever order they ask for: Spark shares them."""
    jobs = {
        "sql: SELECT * FROM raw": True,
        'map: "code:slow"': False,
        'map: "code:slow", order: preserve': True,
    }
    for said, turn in jobs.items():
        text = f"""
        pipeline: p
        sites: {{here: {{broker: kafka}}}}
        streams: {{raw: {{schema: {{id: int}}}}, out: {{}}}}
        jobs: {{job: {{from: raw, to: out, replicas: 4, {said}}}}}
        """
        job = load_text(dedent(text), "case").required().jobs["job"]
        assert in_turn(job) is turn, said


def falls(records: list[Record], *, by_key: bool) -> int:
    """How often a result comes before one of an earlier record, in a partition of the output.

    Earlier is meant for records of one partition, or of one key in it.
    """
    last: dict[object, tuple[int, int]] = defaultdict(lambda: (-1, -1))
    count = 0
    for record in records:
        origin = origin_of(record)
        assert origin is not None
        place = (record.partition, origin.partition, record.key if by_key else None)
        at = (origin.position, origin.index)
        count += at < last[place]
        last[place] = at
    return count
