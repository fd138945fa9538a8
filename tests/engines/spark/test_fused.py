"""Several jobs as one query: the same results, and a ledger for each of them."""

from __future__ import annotations

import pytest

from millrace.model.job import Mode
from millrace.ports import Fates, Record
from tests.engines.spark.lab import Lab, balanced, json_record, multiset, objects

pytestmark = pytest.mark.timeout(300)
CHAIN = """
defaults: {jobs: {checkpoint: 5 s, mode: MODE}}
streams:
  raw: {schema: {id: long, speed: double}, partitions: 2, dead_letters: dead}
  dead: {format: raw}
  fast: {transient: KIND, schema: {id: long, speed: double}}
  named: {transient: KIND}
  out: {key: id, partitions: 2}
jobs:
  slow: {from: raw, to: fast, sql: "SELECT id, speed FROM raw WHERE speed > 10"}
  name:
    from: fast
    to: named
    sql: SELECT id, speed * 2 AS twice, concat('v', id) AS name FROM fast
  even: {from: named, to: out, sql: "SELECT name, id, twice FROM named WHERE id % 2 = 0"}
"""
TREE = """
defaults: {jobs: {checkpoint: 5 s, mode: MODE}}
streams:
  raw: {schema: {id: long, speed: double}, partitions: 2, dead_letters: dead}
  dead: {format: raw}
  fast: {transient: KIND}
  low: {}
  high: {}
jobs:
  clean: {from: raw, to: fast, sql: "SELECT id, speed FROM raw WHERE speed > 10"}
  lower: {from: fast, to: low, sql: "SELECT id FROM fast WHERE speed < 50"}
  upper: {from: fast, to: high, sql: "SELECT id, speed FROM fast WHERE id % 3 = 0"}
"""


def records() -> list[Record]:
    good = [json_record(str(n), id=n, speed=float(n)) for n in range(100)]
    return [*good, Record(b"{no json"), Record(b'{"id": "x"}')]


@pytest.mark.parametrize("mode", ["real-time", "micro-batch"])
def test_a_chain_gives_what_its_jobs_give_apart(lab: Lab, mode: str) -> None:
    found = {}
    for kind in ("true", "false"):
        with lab.case(CHAIN.replace("KIND", kind).replace("MODE", mode)) as case:
            facts = case.examine()
            assert {fact.mode for fact in facts.values()} == {Mode(mode)}
            case.start()
            case.send("raw", records())
            wanted = [n for n in range(11, 100) if n % 2 == 0]
            results = multiset(case.read("out", len(wanted)))
            letters = multiset(case.read("dead", 2))
            fates = {
                "slow": case.fates("slow", 102),
                "name": case.fates("name", 89),
                "even": case.fates("even", 89),
            }
            found[kind] = (results, letters, fates)
            assert sum(results.values()) == len(wanted)
            assert all(map(balanced, fates.values()))
            if kind == "true":
                assert case.count("fast") == case.count("named") == 0
    assert found["true"] == found["false"]
    fates = found["true"][2]
    assert fates["slow"] == Fates(102, 89, 11, 2, written={"fast": 89})
    assert fates["even"] == Fates(89, 44, 45, 0, written={"out": 44})


@pytest.mark.parametrize("mode", ["real-time", "micro-batch"])
def test_a_tree_gives_what_its_jobs_give_apart(lab: Lab, mode: str) -> None:
    found = {}
    for kind in ("true", "false"):
        with lab.case(TREE.replace("KIND", kind).replace("MODE", mode)) as case:
            case.examine()
            case.start()
            case.send("raw", records())
            low, high = multiset(case.read("low", 39)), multiset(case.read("high", 30))
            fates = {
                "clean": case.fates("clean", 102),
                "lower": case.fates("lower", 89),
                "upper": case.fates("upper", 89),
            }
            letters = multiset(case.read("dead", 2))
            found[kind] = (low, high, letters, fates)
    assert found["true"] == found["false"]
    assert found["true"][3]["upper"] == Fates(89, 30, 59, 0, written={"high": 30})


MAPS = """
defaults: {jobs: {checkpoint: 5 s, mode: micro-batch}}
streams:
  raw: {schema: {id: long, speed: double}, partitions: 2, dead_letters: dead}
  dead: {format: raw}
  other: {format: raw}
  fast: {transient: KIND, key: id, dead_letters: other}
  twice: {transient: KIND, schema: {id: long, part: int}, dead_letters: other}
  thrice: {transient: KIND, schema: {id: long, part: int, step: int}}
  out: {partitions: 2}
jobs:
  clean: {from: raw, to: fast, sql: "SELECT id, speed FROM raw WHERE speed > 10"}
  split: {from: fast, to: twice, map: "code:split"}
  steps: {from: twice, to: thrice, map: "code:steps"}
  last:
    from: thrice
    to: out
    sql: SELECT id, part * 10 + step AS place FROM thrice WHERE step < 2
"""
CODE = """
def split(record):
    if record["id"] % 10 == 3:
        raise ValueError(f"no {record['id']}")
    return [{"id": record["id"], "part": part} for part in range(record["id"] % 3)]

def steps(record):
    if record["id"] == 50:
        raise ValueError("not this one")
    return [{**record, "step": step} for step in range(3)]
"""


def expected() -> tuple[list[tuple[int, int]], int]:
    """What the maps give in plain Python: results, and how many records each of them gave up."""
    results, failed = [], 0
    for number in range(11, 100):
        if number % 10 == 3:
            failed += 1
            continue
        for part in range(number % 3):
            if number == 50:
                failed += 1
                continue
            results += [(number, part * 10 + step) for step in range(2)]
    return results, failed


def test_functions_over_records_inside_a_query(lab: Lab) -> None:
    results, failed = expected()
    found = {}
    for kind in ("true", "false"):
        with lab.case(MAPS.replace("KIND", kind), code=CODE) as case:
            case.examine()
            case.start()
            case.send("raw", records())
            rows = case.read("out", len(results))
            letters = [multiset(case.read("dead", 2)), multiset(case.read("other", failed))]
            parts = sum(n % 3 for n in range(11, 100) if n % 10 != 3)
            reads = {"clean": 102, "split": 89, "steps": parts, "last": len(results) * 3 // 2}
            fates = {name: case.fates(name, count) for name, count in reads.items()}
            found[kind] = (multiset(rows), letters, fates)
            assert all(map(balanced, fates.values()))
            assert sorted((row["id"], row["place"]) for row in objects(rows)) == sorted(results)
    assert found["true"] == found["false"]


def test_a_function_at_either_end_of_a_query(lab: Lab) -> None:
    text = """
    defaults: {jobs: {checkpoint: 5 s, mode: micro-batch}}
    streams:
      raw: {schema: {id: long, speed: double}, partitions: 2, dead_letters: dead}
      dead: {format: raw}
      one: {transient: KIND, schema: {id: long}}
      two: {transient: KIND}
      out: {schema: {id: long}}
    jobs:
      first: {from: raw, to: one, map: "code:first"}
      middle: {from: one, to: two, sql: "SELECT id * 2 AS id FROM one WHERE id > 5"}
      last: {from: two, to: out, map: "code:last"}
    """
    code = """
    def first(record):
        return {"id": record["id"]}

    def last(record):
        return None if record["id"] % 3 else record
    """
    found = {}
    for kind in ("true", "false"):
        with lab.case(text.replace("KIND", kind), code=code) as case:
            case.examine()
            case.start()
            case.send("raw", records())
            wanted = [2 * n for n in range(6, 100) if 2 * n % 3 == 0]
            rows = case.read("out", len(wanted))
            assert sorted(row["id"] for row in objects(rows)) == wanted
            reads = {"first": 102, "middle": 100, "last": 94}
            fates = {name: case.fates(name, count) for name, count in reads.items()}
            found[kind] = (multiset(rows), multiset(case.read("dead", 2)), fates)
    assert found["true"] == found["false"]
