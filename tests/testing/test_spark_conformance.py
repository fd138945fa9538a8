"""Spark claims all that the suite of engines asks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from millrace.engines.spark.engine import SparkEngine
from millrace.ports import JobOrder
from millrace.testing.conformance.claims import behaviours
from millrace.testing.conformance.engine import BAD, EngineConformance, Standard
from tests.engines.spark.conftest import connector, lab
from tests.engines.spark.lab import LIMIT, Case, Lab, json_record

__all__ = ["connector", "lab"]  # fixtures
pytestmark = [pytest.mark.xdist_group("spark-conformance"), pytest.mark.timeout(600)]
TEXT = """
streams:
  raw: {{schema: {{n: bigint}}, partitions: 2}}
  done: {{schema: {{n: bigint}}, partitions: 2}}
jobs:
  {job}: {{from: raw, to: done, checkpoint: 2 s, {work}}}
"""
WORK = {
    Standard.COPIES: "sql: SELECT n FROM raw",
    Standard.SQUARES: 'map: "code:squares"',
    Standard.FAILS: 'map: "code:fails", on_error: stop',
    Standard.WRONG: "sql: SELECT m FROM raw",
}
CODE = f"""
def squares(row):
    return {{"n": row["n"] * row["n"]}} if row["n"] % 2 == 0 else None

def fails(row):
    if row["n"] == {BAD}:
        raise ValueError("a bad number")
    return row
"""


@dataclass
class SparkBench:
    """A driver and a Kafka; each job is a pipeline of its own."""

    lab: Lab
    stack: ExitStack
    cases: dict[str, Case] = field(default_factory=dict)

    def engine(self) -> SparkEngine:
        return self.lab.engine

    def order(self, standard: Standard, job: str) -> JobOrder:
        if job not in self.cases:
            text = TEXT.format(job=job, work=WORK[standard])
            self.cases[job] = self.stack.enter_context(self.lab.case(text, code=CODE))
        return self.cases[job].order(job)

    def send(self, job: str, numbers: Sequence[int]) -> None:
        self.cases[job].send("raw", [json_record(key=f"k{n}", n=n) for n in numbers])

    def results(self, job: str) -> list[int]:
        return [json.loads(record.value or b"")["n"] for record in self.cases[job].read("done")]

    def ends(self, job: str) -> Mapping[str, Mapping[int, int]]:
        case = self.cases[job]
        held = case.kafka.log.ends(case.topic("raw"))
        return {"raw": {part: span.end for part, span in held.items()}}


class TestSpark(EngineConformance):
    CLAIMS = frozenset(behaviours(EngineConformance))
    LIMIT = LIMIT

    @pytest.fixture
    def bench(self, lab: Lab) -> Iterator[SparkBench]:
        with ExitStack() as stack:
            yield SparkBench(lab, stack)
