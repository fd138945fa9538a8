"""Exact windows on Spark and Kafka: the oracle's results, in one batch and in many."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from millrace.model.job import Mode
from millrace.ports import Fates, Record
from tests.engines.spark.exact.oracle import Rule, Seen, truth
from tests.engines.spark.lab import Case, Lab, balanced

pytestmark = [pytest.mark.xdist_group("spark-state"), pytest.mark.timeout(600)]
SECOND = 1_000_000
RULES = {
    "tumbling": (Rule(10 * SECOND, 10 * SECOND, lateness=3 * SECOND), "of: 10 s, lateness: 3 s"),
    "sliding": (Rule(30 * SECOND, 10 * SECOND), "of: 30 s, every: 10 s"),
    "session": (
        Rule(gap=2 * SECOND, lateness=SECOND),
        "gap: 2 s, lateness: 1 s",
    ),
}
PIPELINE = """
defaults: {jobs: {mode: drain, options: {maxOffsetsPerTrigger: LIMIT}}}
streams:
  raw:
    schema: {car: string, lane: int, speed: double, at: timestamp}
    partitions: 2
    dead_letters: dead
  dead: {format: raw}
  tumbling: {key: [car, lane]}
  sliding: {}
  session: {}
jobs:
"""
JOB = """
  {name}-job:
    from: raw
    to: {name}
    window: {{{window}, by: at, per: [car, lane], late: {late}}}
    aggregate:
      rows: count(*)
      n: count(speed)
      sum: sum(speed)
      mean: avg(speed)
      least: MIN(speed)
      most: max(speed)
"""
BAD = 3


def cars(seed: int, count: int) -> list[Record]:
    """Cars in two partitions, out of order by some seconds, a few of them malformed."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        time = number / 4 + chance.uniform(-5, 1)
        row = {
            "car": chance.choice("abc"),
            "lane": chance.choice([1, None]),
            "speed": chance.choice([None, round(chance.uniform(0, 99), 3)]),
            "at": f"{datetime.fromtimestamp(1_790_000_000 + round(time, 3), UTC):%FT%T.%fZ}",
        }
        found.append(Record(json.dumps(row).encode(), partition=chance.randrange(2)))
    bad = [Record(b"x", partition=1), Record(b'{"car": "a"}', partition=0), Record(None)]
    for record in bad:
        found.insert(chance.randrange(count), record)
    end = b'{"car": "end", "at": "2027-01-01T00:00:00Z"}'
    return [*found, *(Record(end, partition=part) for part in range(2))]


def seen(case: Case) -> list[list[Seen]]:
    """What is in the log, as the oracle takes it."""
    partitions: list[list[Seen]] = [[], []]
    for record in sorted(case.read("raw"), key=lambda record: record.position):
        try:
            row = json.loads(record.value or b"")
            time = datetime.fromisoformat(row["at"])
        except (ValueError, KeyError):
            continue
        key = json.dumps([row["car"], row.get("lane")])
        micros = round(time.timestamp() * 1e6)
        partitions[record.partition or 0].append(Seen(micros, key, row.get("speed")))
    return partitions


def micros(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1e6)


def results(case: Case, stream: str, count: int) -> dict[Any, Any]:
    found = {}
    for record in case.read(stream, count):
        row = json.loads(record.value or b"")
        span = (micros(row["start"]), micros(row["end"]), json.dumps([row["car"], row["lane"]]))
        assert span not in found, "a window closes once"
        found[span] = tuple(row[name] for name in ("rows", "n", "sum", "mean", "least", "most"))
    return found


@pytest.mark.parametrize("limit", [120, 10_000])
def test_windows_are_those_of_the_oracle(lab: Lab, limit: int) -> None:
    jobs = [
        JOB.format(name=name, window=said, late="keep" if name == "session" else "count")
        for name, (_, said) in RULES.items()
    ]
    with lab.case(PIPELINE.replace("LIMIT", str(limit)) + "".join(jobs)) as case:
        facts = case.examine()
        assert {fact.mode for fact in facts.values()} == {Mode.DRAIN}
        assert all(fact.stateful for fact in facts.values())
        case.send("raw", cars(limit, 240))
        records = seen(case)
        total = case.count("raw")
        case.drain()
        kept = 0
        for name, (rule, _) in RULES.items():
            wanted = truth(records, rule)
            late = sum(map(len, wanted.late.values()))
            assert late > 5, "the records test nothing"
            assert results(case, name, len(wanted.closed)) == wanted.closed
            fates = case.fates(f"{name}-job", total)
            used = total - BAD - late
            assert fates == Fates(total, used, 0, BAD, late, written={name: len(wanted.closed)}), (
                name
            )
            assert balanced(fates)
            kept += late if name == "session" else 0
        letters = case.read("dead", len(RULES) * BAD + kept)
    causes = [(letter.header("millrace-cause") or b"").decode() for letter in letters]
    assert len([cause for cause in causes if cause.startswith("late: more than 1 s")]) == kept
    assert len([cause for cause in causes if cause == "at is empty, or no time"]) == len(RULES)
    assert len(causes) == len(RULES) * BAD + kept


COUNTED = """
defaults: {jobs: {mode: drain, from: raw, options: {maxOffsetsPerTrigger: 7}}}
streams: {raw: {schema: {car: string, n: int}, partitions: 2}, threes: {}, all: {}}
jobs:
  threes: {to: threes, window: {of: 3 records, every: 2 records, per: car}, aggregate: AGGREGATE}
  all: {to: all, window: 4 records, aggregate: AGGREGATE}
"""


def test_windows_of_a_number_of_records(lab: Lab) -> None:
    text = COUNTED.replace("AGGREGATE", '{n: "count(*)", sum: sum(n)}')
    with lab.case(text) as case:
        rows: list[dict[str, Any]] = [{"car": "ab"[n % 3 == 0], "n": n} for n in range(50)]
        case.send("raw", [Record(json.dumps(r).encode(), partition=r["n"] % 2) for r in rows])
        case.drain()
        held: dict[tuple[int, str], list[int]] = {}
        for row in rows:
            for key in (row["car"], ""):
                held.setdefault((row["n"] % 2, key), []).append(row["n"])
        threes = sorted(
            sum(ns[at : at + 3])
            for (_, car), ns in held.items()
            if car
            for at in range(0, len(ns) - 2, 2)
        )
        fours = sorted(
            sum(ns[at : at + 4])
            for (_, car), ns in held.items()
            if not car
            for at in range(0, len(ns) - 3, 4)
        )
        found = {
            name: [json.loads(r.value or b"") for r in case.read(name)]
            for name in ("threes", "all")
        }
        assert sorted(row["sum"] for row in found["threes"]) == threes
        assert sorted(row["sum"] for row in found["all"]) == fours
        assert {(row["n"], row["end"] - row["start"]) for row in found["threes"]} == {(3, 3)}
        fates = case.fates("threes", 50)
        assert (fates.read, fates.used, fates.late) == (50, 50, 0)


CLOCK = """
streams: {raw: {schema: {n: int}, partitions: 2, options: {message.timestamp.type: LogAppendTime}},
          out: {}}
jobs: {clock: {from: raw, to: out, window: 2 s, aggregate: AGGREGATE}}
"""


def test_windows_by_the_clock_close_without_another_record(lab: Lab) -> None:
    with lab.case(CLOCK.replace("AGGREGATE", '{n: "count(*)", sum: sum(n)}')) as case:
        assert case.examine()["clock"].mode is Mode.MICRO_BATCH
        case.start()
        case.send("raw", [Record(b'{"n": 1}', partition=0), Record(b'{"n": 2}', partition=1)])
        stamps = [record.time or 0 for record in case.read("raw", 2)]
        windows = {stamp // 2000 for stamp in stamps}
        rows = [json.loads(r.value or b"") for r in case.read("out", len(windows))]
        assert sum(row["sum"] for row in rows) == 3
        assert {micros(row["start"]) // 2_000_000 for row in rows} == windows


FUNCTIONS = """
defaults: {jobs: {mode: drain, from: raw, options: {maxOffsetsPerTrigger: 40}}}
streams:
  raw: {schema: {car: string, n: int, at: timestamp}, partitions: 2, dead_letters: dead}
  dead: {format: raw}
  lists: {schema: {car: string, ns: "array<int>", start: timestamp}, key: car}
  totals: {schema: {start: timestamp, car: string, n: int, sum: long}}
  threes: {schema: {ns: "array<int>"}}
jobs:
  lists: {to: lists, map: "code:listed", window: {of: 10 s, by: at, per: car, lateness: 2 s}}
  totals:
    to: totals
    map: "code:add"
    window: {of: 30 s, every: 10 s, by: at, per: car, lateness: 2 s, inverse: "code:take_out"}
  threes: {to: threes, map: "code:few", window: {of: 3 records, every: 2 records}}
"""
FUNCTIONS_CODE = """
def listed(records, window):
    if window.key["car"] == "odd":
        raise ValueError("odd car")
    ns = [record["n"] for record in records]
    return {"car": window.key["car"], "ns": ns, "start": window.start.isoformat()}

def add(total, record):
    total = total or {"n": 0, "sum": 0}
    return {"n": total["n"] + 1, "sum": total["sum"] + record["n"]}

def take_out(total, record):
    return {"n": total["n"] - 1, "sum": total["sum"] - record["n"]}

def few(records):
    return {"ns": [record["n"] for record in records]}
"""


def test_functions_over_windows(lab: Lab) -> None:
    with lab.case(FUNCTIONS, code=FUNCTIONS_CODE) as case:
        rows = [(n, "abodd"[n % 2] if n else "odd", n // 3) for n in range(200)]
        ends = [(-1, "end", 900), (-1, "end", 900)]
        records = [
            Record(
                json.dumps({"car": car, "n": n, "at": f"{_moment(time)}"}).encode(),
                partition=number % 2,
            )
            for number, (n, car, time) in enumerate([*rows, *ends])
        ]
        case.send("raw", records)
        case.drain()
        spans: dict[Any, list[int]] = {}
        totals: dict[Any, list[int]] = {}
        for n, car, time in rows:
            spans.setdefault((car, time // 10 * 10), []).append(n)
            for back in range(3):
                totals.setdefault((car, time // 10 * 10 - back * 10), []).append(n)
        odd = spans.pop(("odd", 0))
        found = [json.loads(record.value or b"") for record in case.read("lists", len(spans))]
        key = {(row["car"], _seconds(row["start"])): sorted(row["ns"]) for row in found}
        assert (key, len(found)) == ({span: sorted(ns) for span, ns in spans.items()}, len(spans))
        sums = [json.loads(record.value or b"") for record in case.read("totals", len(totals))]
        assert {(r["car"], _seconds(r["start"])): (r["n"], r["sum"]) for r in sums} == {
            span: (len(ns), sum(ns)) for span, ns in totals.items()
        }
        threes = [json.loads(record.value or b"")["ns"] for record in case.read("threes")]
        halves = [[n for n, _, _ in rows[part::2]] + [-1] for part in range(2)]
        assert sorted(threes) == sorted(
            half[at : at + 3] for half in halves for at in range(0, len(half) - 2, 2)
        )
        (letter,) = case.read("dead", 1)
        assert json.loads(letter.value or b"")["n"] == odd[-1]
        assert (letter.header("millrace-cause") or b"") == b"ValueError: odd car"


def test_the_second_input_of_a_window_may_have_wider_columns(lab: Lab) -> None:
    text = """
    defaults: {jobs: {mode: drain}}
    streams:
      whole: {schema: {car: string, n: int, at: timestamp}}
      broken: {schema: {car: string, n: double, at: timestamp}}
      sums: {}
    jobs:
      sums:
        from: [whole, broken]
        to: sums
        window: {of: 10 s, by: at, per: car, late: count}
        aggregate: {sum: sum(n), most: max(n)}
    """
    with lab.case(text) as case:
        for stream, n in (("whole", 2), ("broken", 2.5)):
            rows = [{"car": "a", "n": n, "at": _moment(1)}, {"car": "z", "n": 0, "at": _moment(99)}]
            case.send(stream, [Record(json.dumps(row).encode()) for row in rows])
        case.drain()
        (row,) = (json.loads(record.value or b"") for record in case.read("sums", 1))
        assert (row["car"], row["sum"], row["most"]) == ("a", 4.5, 2.5)


def _moment(seconds: int) -> str:
    return f"{datetime.fromtimestamp(1_790_000_000 + seconds, UTC):%FT%TZ}"


def _seconds(text: str) -> int:
    return micros(text) // SECOND - 1_790_000_000
