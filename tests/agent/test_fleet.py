"""The processes of a pipeline: a broker for each site, a driver for each group."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from millrace.agent.fleet import Fleet, driver_name
from millrace.brokers.kafka import ManagedKafka
from millrace.engines.spark.engine import SparkEngine
from millrace.errors import OperationFailed
from millrace.machine import Folders
from millrace.model.pipeline import Pipeline
from millrace.spec import load_text

STREAMS = "streams: {raw: {site: a, schema: {n: int}}, out: {site: a}}\n"
JOB = 'from: raw, to: out, sql: "SELECT n FROM raw"'


def pipeline(jobs: str, sites: str = "{a: {broker: kafka}, b: {}}") -> Pipeline:
    text = f"pipeline: p\nsites: {sites}\ngroups: {{g: {{}}}}\n{STREAMS}jobs: {{{jobs}}}"
    return load_text(text, "p").required()


@pytest.fixture
def home(folders: Folders, tmp_path: Path) -> Folders:
    return Folders(tmp_path, folders.cache)


def test_jobs_of_a_group_and_a_site_share_a_driver(home: Folders, tmp_path: Path) -> None:
    one = pipeline(
        f"one: {{site: a, {JOB}}}, two: {{site: a, {JOB}}}, three: {{site: b, {JOB}}}, "
        f"four: {{site: a, group: g, {JOB}}}, five: {{site: a, isolation: dedicated, {JOB}}}"
    )
    fleet = Fleet.of(one, home)
    assert {name: driver_name(job) for name, job in one.jobs.items()} == {
        "one": "a/main",
        "two": "a/main",
        "three": "b/main",
        "four": "a/g",
        "five": "a/job-five",
    }
    assert set(fleet.drivers) == {"a/main", "b/main", "a/g", "a/job-five"}
    assert fleet.driver(one.jobs["one"]) is fleet.driver(one.jobs["two"])
    places = [cast(SparkEngine, driver).place for driver in fleet.drivers.values()]
    assert len(set(places)) == 4
    assert all(place.is_relative_to(tmp_path) for place in places)
    assert list(fleet.brokers) == ["a"]
    assert isinstance(fleet.brokers["a"], ManagedKafka)


def test_nothing_is_started_by_being_made(home: Folders, tmp_path: Path) -> None:
    fleet = Fleet.of(pipeline(f"one: {{site: a, {JOB}}}"), home)
    assert not any(driver.alive for driver in fleet.drivers.values())
    assert not fleet.brokers["a"].status().up
    assert list(tmp_path.iterdir()) == []


def test_a_site_that_is_elsewhere_is_refused(home: Folders) -> None:
    far = pipeline(f"one: {{site: a, {JOB}}}", "{a: {broker: kafka, host: far.example}}")
    with pytest.raises(OperationFailed) as caught:
        Fleet.of(far, home)
    assert caught.value.code == "elsewhere"
    assert "far.example" in caught.value.message
    assert "--profile" in caught.value.hint


def test_a_job_for_another_engine_is_refused(home: Folders) -> None:
    other = pipeline(
        "one: {site: a, from: raw, to: out, process: {command: cat}}",
        "{a: {broker: kafka, engine: [spark, process]}}",
    )
    with pytest.raises(OperationFailed) as caught:
        Fleet.of(other, home)
    assert caught.value.code == "not-yet"
    assert "one" in caught.value.message
    assert "spark" in caught.value.hint
