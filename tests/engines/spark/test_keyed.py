"""State per key on Spark and Kafka: in order, through restarts, with new code."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from millrace.model.job import Mode
from millrace.ports import Fates, Record
from tests.engines.spark.lab import Lab, balanced

pytestmark = pytest.mark.timeout(300)
PIPELINE = """
defaults: {jobs: {mode: drain, options: {maxOffsetsPerTrigger: 70}}}
streams:
  raw:
    schema: {car: string, speed: double, at: timestamp}
    key: car
    partitions: 2
    dead_letters: dead
  dead: {format: raw}
  out: {schema: {car: string, n: int, total: double, silent: boolean}, key: car, partitions: 2}
jobs:
  journey: {from: raw, to: out, state: {code: "code:Journey", key: car, by: at}}
"""
CODE = """
from datetime import timedelta

class Journey:
    n: int = 0
    total: float = 0.0

    def on_record(self, record, now):
        if record["speed"] is None:
            self.n = -1000
            raise ValueError("no speed")
        self.n += 1
        self.total += record["speed"]
        now.cancel_timers()
        now.set_timer(timedelta(seconds=60))
        if self.n % 2:
            return {"car": now.key["car"], "n": self.n, "total": self.total, "silent": False}

    def on_timer(self, now):
        now.forget()
        return {"car": now.key["car"], "n": self.n, "total": self.total, "silent": True}
"""


def cars(first: int, count: int) -> list[Record]:
    """A car every second; the car `gone` is only among the first."""
    found = []
    for number in range(first, first + count):
        car = "gone" if number < 5 else f"c{number % 7}"
        row = {
            "car": car,
            "speed": None if number % 11 == 0 else float(number),
            "at": f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z",
        }
        found.append(Record(json.dumps(row).encode(), car.encode()))
    return [*found, Record(b"x", b"c1")]


def expected(records: list[Record]) -> dict[str, list[Any]]:
    """What cars give in plain Python, without their silence."""
    found: dict[str, list[Any]] = defaultdict(list)
    counts: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for record in records:
        if record.value == b"x":
            continue
        row = json.loads(record.value or b"")
        if row["speed"] is None:
            continue
        held = counts[row["car"]]
        held[0] += 1
        held[1] += row["speed"]
        if held[0] % 2:
            found[row["car"]].append((held[0], held[1]))
    return found


def given(records: list[Record], *, silent: bool) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record.position):
        row = json.loads(record.value or b"")
        if row["silent"] is silent:
            found[row["car"]].append((row["n"], row["total"]))
    return found


def test_state_is_kept_in_order_through_batches_and_restarts(lab: Lab) -> None:
    first, second = cars(0, 150), cars(150, 60)
    with lab.case(PIPELINE, code=CODE) as case:
        facts = case.examine()["journey"]
        assert (facts.mode, facts.stateful) == (Mode.DRAIN, True)
        case.send("raw", first)
        case.drain()
        case.engine.stop("journey")
        case.send("raw", second)
        case.drain()
        out = case.read("out")
        assert given(out, silent=False) == expected([*first, *second])
        assert given(out, silent=True) == {"gone": [(4, 10.0)]}
        fates = case.fates("journey", 212)
        failed = len([n for n in range(210) if n % 11 == 0])
        assert fates == Fates(212, 210 - failed, 0, 2, 0, failed, written={"out": len(out)})
        assert balanced(fates)
        causes = [letter.header("millrace-cause") for letter in case.read("dead", failed + 2)]
        assert causes.count(b"ValueError: no speed") == failed


def changed(place: Path, old: str, new: str) -> None:
    file = place / "code.py"
    file.write_text(file.read_text().replace(old, new))


def test_new_code_goes_on_with_state_that_fits(lab: Lab) -> None:
    with lab.case(PIPELINE, code=CODE) as case:
        case.send("raw", cars(5, 40))
        case.drain()
        case.engine.stop("journey")
        changed(case.code, "    n: int = 0\n", "    n: int = 0\n    bonus: float = 0.5\n")
        changed(case.code, 'record["speed"]\n', 'record["speed"] + self.bonus\n')
        case.send("raw", cars(45, 7))
        case.drain()
        last = {car: rows[-1] for car, rows in given(case.read("out"), silent=False).items()}
        assert all(n >= 5 for n, _ in last.values()), last
        assert any(total % 1 for _, total in last.values()), last
        case.engine.stop("journey")
        changed(case.code, "    n: int = 0\n", "    n: str = ''\n")
        failure = case.failure("journey")
    assert failure.code == "state-misfit"
    assert "n was int and is str now" in failure.message
    assert "give new fields a default" in failure.hint
