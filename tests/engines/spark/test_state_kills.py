"""kill -9 with state and windows open: the results of a run that nobody disturbed."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from typing import Any

import pytest

from tests.engines.spark.lab import Case, Lab, json_record, objects

pytestmark = [pytest.mark.xdist_group("spark-state"), pytest.mark.timeout(900)]
SEED, KILLS = int(os.environ.get("SEED", "1")), int(os.environ.get("KILLS", "1"))
COUNT = 1_300
TEXT = """
defaults:
  streams: {partitions: 2, promise: PROMISE}
  jobs: {from: raw, mode: drain, options: {maxOffsetsPerTrigger: 300}}
streams:
  raw: {schema: {car: string, n: int, at: timestamp}, key: car, promise: at-least-once}
  counts: {}
  sums: {schema: {car: string, sum: long, n: int}, key: car}
  pairs: {}
jobs:
  counts:
    to: counts
    window: {of: 10 s, every: 5 s, by: at, per: car, late: count, lateness: 2 s}
    aggregate: {n: count(*), sum: sum(n)}
  sums: {to: sums, state: {code: "code:Sum", key: car}}
  pairs:
    from:
      - {stream: raw, as: one, by: at, lateness: 1 s}
      - {stream: raw, as: other, by: at, lateness: 1 s}
    to: pairs
    sql: >
      SELECT one.n AS one, other.n AS other FROM one JOIN other ON one.car = other.car
      AND other.n = one.n + 5 AND other.at BETWEEN one.at AND one.at + INTERVAL 10 SECONDS
"""
CODE = """
class Sum:
    sum: int = 0

    def on_record(self, record, now):
        self.sum += record["n"]
        return {"car": record["car"], "n": record["n"], "sum": self.sum}
"""


def send(case: Case) -> None:
    chance = random.Random(SEED)
    case.send(
        "raw",
        (
            json_record(f"c{n % 5}", car=f"c{n % 5}", n=n, at=_moment(n / 10, chance))
            for n in range(COUNT)
        ),
    )


def _moment(seconds: float, chance: random.Random) -> str:
    whole = int(max(seconds - chance.choice([0, 0, 1]), 0))
    return f"2026-01-01T00:{whole // 60:02}:{whole % 60:02}Z"


def found(case: Case) -> dict[str, Counter[tuple[Any, ...]]]:
    return {
        name: Counter(tuple(sorted(item.items())) for item in objects(case.read(name)))
        for name in ("counts", "sums", "pairs")
    }


@pytest.mark.parametrize("promise", ["no-duplicates", "at-least-once"])
def test_kills_change_no_result(lab: Lab, promise: str) -> None:
    text = TEXT.replace("PROMISE", promise)
    chance = random.Random(f"{SEED} {promise}")
    with lab.case(text, code=CODE) as calm, lab.case(text, code=CODE) as case:
        for one in (calm, case):
            send(one)
        calm.drain()
        wanted = found(calm)
        assert all(counts.total() > 100 for counts in wanted.values()), "it tests nothing"
        for _ in range(KILLS):
            case.start()
            time.sleep(chance.uniform(1, 5))  # any moment is as good as another
            lab.engine.kill()
        case.drain()
        results = found(case)
    if promise == "no-duplicates":
        assert results == wanted
    else:
        assert {name: set(counts) for name, counts in results.items()} == {
            name: set(counts) for name, counts in wanted.items()
        }
