"""When a query may start with what was made of it as it was looked at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from millrace.engines.spark.carry import Operators
from millrace.engines.spark.checkpoint import Committed, write_start
from millrace.engines.spark.kept_fields import write_fields
from millrace.engines.spark.prepared import Compiled
from millrace.engines.spark.source import Source
from millrace.model.job import Input
from millrace.ports import JobOrder
from millrace.spec import load_text

FILE = """
pipeline: p
sites: {here: {broker: BROKER}}
streams: {raw: {schema: {n: int}}, out: {}}
jobs: {a: {from: raw, to: out, sql: SELECT n FROM raw}}
"""


def looked_at(place: Path, broker: str = "kafka") -> Compiled:
    pipeline = load_text(FILE.replace("BROKER", broker)).required()
    brokers = {"here": {"bootstrap.servers": "h:1"}}
    order = JobOrder(pipeline, pipeline.jobs["a"], brokers, place / "0", place)
    frame: Any = None
    stream = pipeline.streams["raw"]
    source = Source(Input(stream="raw"), stream, stream.schema or {}, frame, frame, "")
    made = Operators(("Project",), python=False, stateful=False)
    return Compiled(
        order, cast("Any", None), frame, made, carries=True, schemas={}, letters=False,
        sources=[source],
    )  # fmt: skip


def test_a_query_starts_elsewhere_with_what_was_made_of_it(tmp_path: Path) -> None:
    made = looked_at(tmp_path)
    order = replace(made.order, place=tmp_path / "1")
    found = made.fits(order)
    assert found is not None
    assert found.order is order
    assert made.fits(made.order) is made


def test_what_stands_at_a_place_is_not_left_out(tmp_path: Path) -> None:
    """Where to begin, what was kept, and what is received, are at the place of a query."""
    made = looked_at(tmp_path)
    begins, keeps = (replace(made.order, place=tmp_path / name) for name in ("1", "2"))
    write_start(begins.place, Committed(-1, 1_000, {"raw": {0: 7}}, {"raw": {0: 7}}))
    assert made.fits(begins) is None
    keeps.place.mkdir()
    write_fields(keeps.place, {"operator 1": "count(1) by n"})
    assert made.fits(keeps) is None
    elsewhere = tmp_path / "3"
    stateful = replace(made, operators=replace(made.operators, stateful=True))
    assert stateful.fits(replace(made.order, place=elsewhere)) is None
    received = looked_at(tmp_path, "mqtt")
    assert received.fits(replace(received.order, place=elsewhere)) is None
    assert received.fits(received.order) is received


@pytest.mark.parametrize(
    "change",
    [
        {"brokers": {"here": {"bootstrap.servers": "h:2"}}},
        {"writers": {"here": {"bootstrap.servers": "h:2"}}},
        {"code": Path("/other")},
    ],
)
def test_another_order_is_made_anew(tmp_path: Path, change: dict[str, Any]) -> None:
    made = looked_at(tmp_path)
    assert made.fits(replace(made.order, place=tmp_path / "1", **change)) is None


def test_columns_that_another_writer_decides_are_made_anew(tmp_path: Path) -> None:
    """Two writers of a stream without a schema: the columns of the one are those of the other."""
    made = replace(looked_at(tmp_path), schemas={"out": {"n": "int", "m": "int"}})
    for columns, fits in ((["n", "m"], True), (["m", "n"], False)):
        stream = replace(made.order.pipeline.streams["out"], schema=dict.fromkeys(columns, "int"))
        streams = {**made.order.pipeline.streams, "out": stream}
        order = replace(made.order, pipeline=replace(made.order.pipeline, streams=streams))
        assert (made.fits(order) is not None) is fits
