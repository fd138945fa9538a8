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


def test_streams_inside_have_the_columns_that_they_declare(lab: Lab) -> None:
    """A text's only column by another name, and a column that is wider than what is written."""
    text = """
    defaults: {jobs: {checkpoint: 5 s, mode: micro-batch}}
    streams:
      raw: {format: text}
      loud: {format: text, transient: KIND, schema: {line: string}}
      sized: {transient: KIND, key: line, schema: {line: string, size: long}}
      out: {}
    jobs:
      shout: {from: raw, to: loud, sql: "SELECT upper(value) AS word FROM raw"}
      size: {from: loud, to: sized, sql: "SELECT length(line) AS size, line FROM loud"}
      last: {from: sized, to: out, sql: "SELECT typeof(size) AS kind, * FROM sized"}
    """
    found = {}
    for kind in ("true", "false"):
        with lab.case(text.replace("KIND", kind)) as case:
            case.examine()
            case.start()
            case.send("raw", [Record(b"one"), Record(b"three")])
            rows = case.read("out", 2)
            assert objects(rows) == [
                {"kind": "bigint", "line": "ONE", "size": 3},
                {"kind": "bigint", "line": "THREE", "size": 5},
            ]
            found[kind] = multiset(rows)
    assert found["true"] == found["false"]


PICKS = """
defaults: {jobs: {checkpoint: 5 s, mode: MODE}, streams: {transient: KIND}}
streams:
  raw: {transient: false, schema: {id: long, speed: double}, partitions: 2, dead_letters: dead}
  dead: {transient: false, format: raw}
  fast: {}
  named: {}
  same: {}
  twice: {}
  large: {}
  out: {transient: false}
jobs:
  fast: {from: raw, to: fast, sql: "SELECT speed AS v, id FROM raw WHERE speed > 10"}
  named: {from: fast, to: named, sql: "SELECT id AS n, v FROM fast WHERE v < 90 AND id <> 50"}
  same: {from: named, to: same, sql: "SELECT * FROM named"}
  twice: {from: same, to: twice, sql: "SELECT n, v * 2 AS w, v FROM same WHERE n % 2 = 0"}
  large: {from: twice, to: large, sql: "SELECT w AS v, n FROM twice WHERE v > 20 AND w > 50"}
  last: {from: large, to: out, sql: "SELECT n, v FROM large WHERE n % 3 = 0"}
"""


@pytest.mark.parametrize("mode", ["real-time", "micro-batch"])
def test_jobs_that_pick_and_test_are_counted_one_by_one(lab: Lab, mode: str) -> None:
    """Columns change their names and places on the way; what is unknown does not pass."""
    unknown = [json_record(str(n), id=n, speed=None) for n in range(100, 105)]
    unknown.append(json_record("x", id=None, speed=30.0))
    wanted = [n for n in range(26, 90) if n % 6 == 0 and n != 50]
    reads = {"fast": 108, "named": 90, "same": 78, "twice": 78, "large": 38, "last": 31}
    found = {}
    for kind in ("true", "false"):
        with lab.case(PICKS.replace("KIND", kind).replace("MODE", mode)) as case:
            case.examine()
            case.start()
            case.send("raw", [*records(), *unknown])
            rows = case.read("out", len(wanted))
            fates = {name: case.fates(name, count) for name, count in reads.items()}
            assert {name: found.read for name, found in fates.items()} == reads
            assert all(map(balanced, fates.values()))
            found[kind] = (multiset(rows), multiset(case.read("dead", 2)), fates)
            assert sorted(row["n"] for row in objects(rows)) == wanted
    assert found["true"] == found["false"]
