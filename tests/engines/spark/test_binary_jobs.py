"""Avro and Arrow on a real Spark: every kind of code reads and writes them."""

from __future__ import annotations

from collections import Counter

import pytest

from millrace.engines.spark.typed import reader, writer
from millrace.model.stream import Format
from millrace.ports import Record
from tests.engines.spark.lab import Lab, balanced, objects

pytestmark = [pytest.mark.xdist_group("spark-state"), pytest.mark.timeout(600)]
SCHEMA = {"n": "int", "name": "string", "at": "timestamp", "tags": "array<string>"}
TEXT = """
defaults:
  streams: {schema: {n: int, name: string, at: timestamp, tags: array<string>}}
streams:
  one: {format: avro, dead_letters: dead}
  two: {format: arrow, dead_letters: dead}
  three: {format: avro}
  four: {format: arrow}
  five: {format: json}
  dead: {format: raw, schema: {value: binary}}
jobs:
  sql: {from: one, to: two, sql: "SELECT n, upper(name) AS name, at, tags FROM one"}
  map: {from: two, to: three, map: "code:marked"}
  python: {from: three, to: four, python: "code:filtered"}
  last: {from: four, to: five, sql: "SELECT * FROM four"}
"""
CODE = """
def marked(record):
    return {**record, "tags": [*(record["tags"] or ()), record["name"]]}

def filtered(three):
    return three.where("n IS NULL OR n % 2 = 0")
"""


def test_records_pass_through_every_kind_of_code(lab: Lab) -> None:
    write, arrow = writer(Format.AVRO, SCHEMA), writer(Format.ARROW, SCHEMA)
    rows = [{"n": n, "name": f"it's {n}", "tags": ["a"], "at": None} for n in range(20)]
    with lab.case(TEXT, code=CODE) as case:
        case.send("one", [Record(write(row)) for row in [*rows, dict.fromkeys(SCHEMA)]])
        case.send("one", [Record(b"\x05no"), Record(b"")])
        case.send("two", [Record(arrow(rows[0])), Record(b"no arrow")])
        case.start()
        found = objects(case.read("five", 12))
        assert Counter(row["n"] for row in found) == Counter([*range(0, 20, 2), None, 0])
        assert {"n": 4, "name": "IT'S 4", "at": None, "tags": ["a", "IT'S 4"]} in found
        assert len(case.read("dead", 3)) == 3
        fates = case.fates("sql", 23)
        assert (fates.read, fates.used, fates.malformed) == (23, 21, 2)
        assert balanced(fates)
        read = reader(Format.ARROW, SCHEMA)
        assert all(read(record.value) is not None for record in case.read("four"))
