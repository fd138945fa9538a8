"""What of a job's file reaches Flink, and what is told of a jar that can't be run."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.engines.flink.program import nearest_class, program_of
from millrace.errors import OperationFailed
from millrace.model.pipeline import Pipeline
from millrace.ports import JobOrder
from millrace.spec import load_text

TEXT = """
pipeline: p
sites:
  edge: {engine: flink, broker: {kind: mqtt, address: "tcp://10.0.0.7:1883"}}
  cloud: {engine: flink, broker: kafka}
streams:
  raw: {site: edge, schema: {n: int}, topic: T-1}
  more: {site: edge, schema: {n: int}}
  done: {site: cloud, schema: {n: int}}
jobs:
  own: {site: edge, engine: flink, JOB}
  other: {site: edge, engine: flink, from: more, to: done, jar: own.jar}
"""
SPECK = "from: raw, to: done, jar: {path: own.jar, entry: a.b.Main}"
BROKERS = {
    "edge": {"address": "tcp://10.0.0.7:1883"},
    "cloud": {"bootstrap.servers": "10.0.0.8:9092"},
}


def pipeline_of(job: str) -> Pipeline:
    return load_text(TEXT.replace("JOB", job), "p.yaml").required()


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "own.jar"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("META-INF/MANIFEST.MF", "Main-Class: a.b.Ma\r\n in\r\n")
        for name in ("a/b/Main", "a/b/Main$Inner", "a/Other", "Plain"):
            file.writestr(f"{name}.class", "")
    return path


def order(jar: Path, job: str) -> JobOrder:
    pipeline = pipeline_of(job)
    return JobOrder(pipeline, pipeline.jobs["own"], BROKERS, jar.parent / "place", jar.parent)


def refused(jar: Path, job: str) -> OperationFailed:
    with pytest.raises(OperationFailed) as caught:
        program_of(order(jar, job))
    return caught.value


def test_a_program_without_arguments_gets_those_of_speck(jar: Path) -> None:
    assert program_of(order(jar, SPECK)).arguments == (
        *("--source_broker", "tcp://10.0.0.7:1883", "--source_topic", "T-1"),
        *("--sink_broker", "10.0.0.8:9092", "--sink_topic", "done"),
    )


def test_arguments_are_filled_in(jar: Path) -> None:
    given = '"{topic:raw} at {broker:raw}", "{broker:done}", "{place}/x", "{bootstrap}", "{other}"'
    job = f"from: raw, to: done, jar: {{path: own.jar, arguments: [{given}]}}"
    assert program_of(order(jar, job)).arguments == (
        "T-1 at tcp://10.0.0.7:1883",
        "10.0.0.8:9092",
        f"{jar.parent}/place/x",
        "tcp://10.0.0.7:1883",
        "{other}",
    )


def test_a_placeholder_for_a_stream_of_others_is_refused(jar: Path) -> None:
    job = 'from: raw, to: done, jar: {path: own.jar, arguments: ["{broker:more}"]}'
    failure = refused(jar, job)
    assert failure.code == "no-such-topic"
    assert "{broker:more}" in failure.message


def test_specks_arguments_are_for_one_source(jar: Path) -> None:
    failure = refused(jar, "from: [raw, more], to: done, jar: own.jar")
    assert failure.code == "arguments-needed"
    assert "raw, more" in failure.message


def test_the_manifest_names_the_entry_class(jar: Path) -> None:
    assert program_of(order(jar, "from: raw, to: done, jar: own.jar")).entry == "a.b.Main"


def test_a_jar_that_says_nothing_needs_an_entry_class(jar: Path) -> None:
    with zipfile.ZipFile(jar, "w") as file:
        file.writestr("a/Other.class", "")
    failure = refused(jar, "from: raw, to: done, jar: own.jar")
    assert failure.code == "no-entry-class"
    assert "a.Other" in failure.hint


def test_a_wrong_class_is_told_with_the_nearest(jar: Path) -> None:
    failure = refused(jar, SPECK.replace("a.b.Main", "b.Main"))
    assert failure.code == "no-such-class"
    assert "b.Main in own.jar" in failure.message
    assert "a.b.Main" in failure.hint


def test_what_is_no_jar_is_told(jar: Path) -> None:
    jar.write_text("no zip")
    assert refused(jar, SPECK).code == "bad-jar"
    jar.unlink()
    failure = refused(jar, SPECK)
    assert failure.code == "no-jar"
    assert str(jar) in failure.message


@pytest.mark.parametrize(
    ("name", "near"),
    [("a.b.main", "a.b.Main"), ("a.Othr", "a.Other"), ("x.y.Othr", "a.Other"), ("Zebra", "")],
)
def test_nearest_class(name: str, near: str) -> None:
    assert nearest_class(name, {"a.b.Main", "a.b.Main$Inner", "a.Other"}) == near


def test_settings_of_a_job(jar: Path) -> None:
    options = (
        "options: {parallelism.default: 3, state.backend.type: rocksdb, "
        "execution.state-recovery.ignore-unclaimed-state: true}"
    )
    program = program_of(order(jar, f"{SPECK}, {options}"))
    assert (program.parallelism, program.leaves_state) == (3, True)
    assert program.settings == {"state.backend.type": "rocksdb"}
    assert program_of(order(jar, f"{SPECK}, replicas: 2")).parallelism == 2


@pytest.mark.parametrize(
    "option", ["rest.port: 80", "execution.checkpointing.dir: s3://x", "parallelism.default: many"]
)
def test_settings_that_a_job_may_not_give(jar: Path, option: str) -> None:
    failure = refused(jar, f"{SPECK}, options: {{{option}}}")
    assert failure.code in ("setting-not-allowed", "bad-parallelism")
    assert "own" in failure.message


def test_a_changed_program_has_another_digest(jar: Path) -> None:
    first = program_of(order(jar, SPECK))
    assert first.digest == program_of(order(jar, SPECK)).digest
    assert first.digest != replace(first, arguments=()).digest
    with zipfile.ZipFile(jar, "a") as file:
        file.writestr("More.class", "")
    assert first.digest != program_of(order(jar, SPECK)).digest


def test_flink_runs_only_jars(jar: Path) -> None:
    pipeline = pipeline_of(SPECK)
    job = replace(pipeline.jobs["own"], jar=None, sql="SELECT * FROM raw")
    with pytest.raises(OperationFailed, match="of the kind sql"):
        program_of(JobOrder(pipeline, job, BROKERS, jar.parent, jar.parent))
