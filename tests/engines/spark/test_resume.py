"""Which rows are taken for written, by what is found in a sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from millrace.engines.spark.carry import Operators
from millrace.engines.spark.outside.bridge import bridged
from millrace.engines.spark.plans import Sketch
from millrace.engines.spark.prepared import Compiled
from millrace.engines.spark.query import _only_source
from millrace.engines.spark.resume import FEW, There, unwritten
from millrace.engines.spark.sink import Target
from millrace.engines.spark.source import Source
from millrace.ports import JobOrder
from millrace.spec import load_text


class Rows:
    """Rows that remember how they are tested."""

    def __init__(self) -> None:
        self.tests: list[str] = []

    def where(self, condition: str) -> Rows:
        self.tests.append(condition)
        return self


def left_out(*there: There, alone: str | None = None) -> str:
    """The test by which rows are left out; empty where all are written."""
    rows = Rows()
    found: Any = unwritten(cast("Sketch", rows), there, alone=alone)
    assert found is rows
    return " ".join(rows.tests)


def of(stream: str, partition: int = 0, position: int = 5) -> There:
    return There(stream, partition, "out", 0, position, 0)


def test_where_nothing_is_there_all_is_written() -> None:
    assert left_out() == left_out(alone="raw") == ""


def test_one_place_asks_for_positions_alone() -> None:
    found = left_out(of("raw"), of("raw", 2, 9), alone="raw")
    assert "'5 -1 9'" in found  # nothing of the partition between them is there
    assert found.count("partition") == 1
    assert "topic" not in found


def test_what_was_made_of_another_stream_says_nothing_of_this_one() -> None:
    """A job that reads another stream than before begins at its beginning."""
    assert left_out(of("before", 0, 99), alone="raw") == ""
    found = left_out(of("before", 0, 99), of("raw"), alone="raw")
    assert "99" not in found
    assert "'5'" in found


def test_rows_of_many_places_are_told_apart() -> None:
    few = left_out(*(of("raw", part) for part in range(FEW)))
    assert few.count("topic = 'out'") == FEW
    many = [of("raw", part) for part in range(FEW + 1)]
    assert "try_element_at" in left_out(*many)


PASSED_ON = """
pipeline: p
sites: {here: {broker: kafka}}
streams: {raw: {schema: {n: int}, dead_letters: dead}, dead: {format: raw}, out: {partitions: MANY}}
jobs:
  narrow: {from: raw, to: out, sql: SELECT * FROM raw}
  wide: {from: raw, to: out, sql: SELECT * FROM raw}
  files: {from: raw, write: {files: out}}
"""


def made(job: str, *, letters: bool) -> Compiled:
    """The query of a job that passes on what it reads."""
    text = PASSED_ON.replace("MANY", "2" if job == "wide" else "1")
    pipeline = load_text(text).required()
    place = Path("place")
    order = bridged(JobOrder(pipeline, pipeline.jobs[job], {"here": {}}, place, place))
    streams, nothing = order.pipeline.streams, cast("Any", None)
    target = Target(
        job,
        {name: streams[name] for name in order.job.writes},
        {"raw": streams["dead"]} if letters else {},
        {"raw": "no JSON"},
    )
    source = Source(order.job.inputs[0], streams["raw"], {"n": "int"}, nothing, nothing, "no JSON")
    return Compiled(
        order,
        target,
        nothing,
        Operators((), python=False, stateful=False),
        carries=True,
        schemas={},
        letters=letters,
        sources=[source],
        one_to_one=True,
    )


@pytest.mark.parametrize(
    ("job", "letters", "alone"),
    [
        ("narrow", False, "raw"),
        ("narrow", True, None),
        ("wide", False, None),
        ("files", False, None),
        # A dead letter is behind results that are not in Kafka: it says nothing of these.
        ("files", True, None),
    ],
)
def test_positions_are_enough_only_where_all_is_in_one_place(
    job: str, letters: bool, alone: str | None
) -> None:
    assert _only_source(made(job, letters=letters)) == alone
