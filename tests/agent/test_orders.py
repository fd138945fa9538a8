"""What is only known at a moment: schemas that writers know, partitions that brokers have."""

from __future__ import annotations

import pytest

from millrace.agent.orders import with_partitions, with_schemas
from millrace.model.pipeline import Pipeline
from millrace.model.status import JobFacts
from millrace.spec import load_text

TEXT = """
pipeline: p
sites: {here: {broker: kafka}}
streams:
  raw: {schema: {a: int}}
  middle: {}
  known: {schema: {a: int}}
  end: {topic: last}
jobs:
  late: {from: middle, to: end, sql: "SELECT a FROM middle"}
  early: {from: raw, to: middle, sql: "SELECT a FROM raw"}
  side: {from: raw, to: known, sql: "SELECT a FROM raw"}
"""


@pytest.fixture
def pipeline() -> Pipeline:
    return load_text(TEXT, "p").required()


def test_a_stream_takes_the_schema_of_its_writer(pipeline: Pipeline) -> None:
    facts = {
        "early": JobFacts(schemas={"middle": {"a": "int"}}),
        "side": JobFacts(schemas={"known": {"a": "bigint"}}),
        "late": JobFacts(),
    }
    found = with_schemas(pipeline, facts).streams
    assert found["middle"].schema == {"a": "int"}
    assert found["known"].schema == {"a": "int"}  # as declared
    assert found["end"].schema is None
    assert with_schemas(pipeline, {}) == pipeline


def test_partitions_are_those_that_are_there(pipeline: Pipeline) -> None:
    there = {"here": {"raw": 7, "last": 3, "end": 9}}
    found = with_partitions(pipeline, there).streams
    assert {name: stream.partitions for name, stream in found.items()} == {
        "raw": 7,
        "middle": 1,
        "known": 1,
        "end": 3,
    }
    assert with_partitions(pipeline, {}) == pipeline
