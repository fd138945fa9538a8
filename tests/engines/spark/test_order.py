"""Orders travel to a driver and arrive as they were."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from millrace.engines.spark.order import order_document, part_of, read_order, same_order
from millrace.model.pipeline import Pipeline
from millrace.ports import JobOrder
from millrace.spec import load_text
from tests.strategies import pipelines

TEXT = """
pipeline: roads
sites:
  here: {broker: kafka, engine: {kind: spark, options: {spark.driver.memory: 2g}}}
  there: {broker: kafka}
  unused: {broker: kafka}
groups: {fast: {}}
streams:
  raw: {site: here, schema: {car: string, at: timestamp}, dead_letters: dead, rate: 10 records/s}
  more: {site: there, format: csv, schema: {car: string}, dead_letters: worse}
  dead: {site: there, format: raw}
  worse: {site: there, format: json, schema: {a: int}, dead_letters: worst}
  worst: {site: there, format: raw}
  out: {site: here, key: [car], max_record: 2 MB, partitions: 3, options: {segment.ms: 1000}}
  other: {site: here, schema: {a: int}}
jobs:
  one:
    site: here
    group: fast
    from: [raw, {stream: more, as: m, start: latest}]
    to: out
    sql: "SELECT '${{ x }}' AS car FROM raw"
    window: {of: 10 s, by: at, every: 5 s, lateness: 1 s}
    emit: updates
    on_error: {policy: retry, retries: 3}
    checkpoint: {every: 7 s}
    options: {maxOffsetsPerTrigger: 10, failOnDataLoss: false, spark.sql.ansi.enabled: true}
  two: {site: here, from: other, to: out, map: "code:f"}
"""


def order(pipeline: Pipeline, job: str) -> JobOrder:
    settings = {"here": {"bootstrap.servers": "h:1"}, "there": {"bootstrap.servers": "h:2"}}
    return JobOrder(pipeline, pipeline.jobs[job], settings, Path("/p"), Path("/c"))


def travelled(sent: JobOrder) -> JobOrder:
    return read_order(json.loads(json.dumps(order_document(sent))))


@pytest.fixture(scope="module")
def roads() -> Pipeline:
    return load_text(TEXT.replace("${{", "$${{"), "roads").required()


@pytest.mark.parametrize("job", ["one", "two"])
def test_an_order_arrives_as_it_was(roads: Pipeline, job: str) -> None:
    sent = order(roads, job)
    got = travelled(sent)
    assert got.job == sent.job
    assert got.pipeline == part_of(roads, [roads.jobs[job]])
    assert (got.brokers, got.place, got.code) == (sent.brokers, sent.place, sent.code)
    assert same_order(got, sent)
    assert travelled(got) == got


def test_a_part_holds_what_the_job_touches_and_nothing_else(roads: Pipeline) -> None:
    part = part_of(roads, [roads.jobs["one"]])
    assert list(part.jobs) == ["one"]
    assert set(part.streams) == {"raw", "more", "out", "dead", "worse"}
    assert set(part.sites) == {"here", "there"}
    assert part.streams["raw"] == replace(roads.streams["raw"], rate=None)
    assert part.streams["worse"].dead_letters is None  # nobody here reads worse
    assert set(part_of(roads, [roads.jobs["two"]]).streams) == {"other", "out"}
    assert set(part_of(roads, [roads.jobs["two"]]).sites) == {"here"}


def test_orders_differ_in_all_but_schemas_and_places(roads: Pipeline) -> None:
    sent = order(roads, "one")

    def with_stream(name: str, **changes: object) -> JobOrder:
        streams = {**roads.streams, name: replace(roads.streams[name], **changes)}  # type: ignore[arg-type]
        return order(replace(roads, streams=streams), "one")

    found = with_stream("out", schema={"car": "string"})
    assert same_order(sent, found), "one of them did not know it yet"
    assert not same_order(found, with_stream("out", schema={"car": "int"}))
    assert same_order(sent, with_stream("other", partitions=9))
    assert not same_order(sent, with_stream("out", partitions=9))
    assert same_order(sent, replace(sent, place=Path("/other")))
    assert not same_order(sent, replace(sent, code=Path("/other")))
    assert not same_order(sent, replace(sent, brokers={}))
    assert not same_order(sent, replace(sent, job=replace(sent.job, sql="SELECT 1")))


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=25)
@given(pipelines())
def test_every_job_of_every_pipeline_arrives(pipeline: Pipeline) -> None:
    for name in pipeline.jobs:
        got = travelled(order(pipeline, name))
        assert got.pipeline == part_of(pipeline, [pipeline.jobs[name]])
        assert got.job == pipeline.jobs[name]
