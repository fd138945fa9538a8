"""Drains that fail in their middle, and jobs that are given up; with engines that only say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from millrace.agent import backoff
from millrace.agent.fleet import Fleet
from millrace.agent.runner import DRAINS, Runner
from millrace.brokers.kafka import AttachedKafka
from millrace.errors import OperationFailed
from millrace.machine import Folders, Java
from millrace.model.pipeline import Pipeline
from millrace.ports import JobOrder, JobState, JobStatus, Span
from millrace.spec import load_text

TEXT = """
pipeline: p
sites: {here: {broker: kafka}}
streams: {raw: {schema: {n: int}}, clean: {}, out: {}}
jobs:
  source: {read: lines.jsonl, to: raw}
  clean: {from: raw, to: clean, sql: SELECT n FROM raw}
  last: {from: clean, to: out, sql: SELECT n FROM clean}
"""
RUNNING, FAILED, STOPPED = JobState.RUNNING, JobState.FAILED, JobState.STOPPED


def not_drained(job: str) -> OperationFailed:
    return OperationFailed("not-drained", f"job {job} was not drained: it ended", transient=True)


@dataclass
class Scripted:
    """An engine behind its port: what a stop of a job raises is given, one after another."""

    jobs: dict[str, JobStatus]
    stops: dict[str, list[OperationFailed]] = field(default_factory=dict)
    log: list[tuple[str, str, object]] = field(default_factory=list)
    alive: bool = True
    page: str = ""

    def start(self, order: JobOrder) -> None:
        self.log.append(("start", order.job.name, None))
        self.jobs[order.job.name] = JobStatus(RUNNING)

    def stop(self, job: str, ends: Mapping[str, Mapping[int, int]] | None = None) -> None:
        self.log.append(("stop", job, ends))
        if self.stops.get(job):
            failure = self.stops[job].pop(0)
            self.jobs[job] = replace(self.jobs[job], state=FAILED, error=failure.message)
            raise failure
        self.jobs[job] = replace(self.jobs[job], state=STOPPED)

    def status(self) -> dict[str, JobStatus]:
        return dict(self.jobs)


class Ends:
    """A broker of which only the ends of streams are asked for."""

    alive = True

    @property
    def log(self) -> Ends:
        return self

    def ends(self, stream: str) -> dict[int, Span]:
        return {0: Span(0, len(stream)), 1: Span(4, 4)}


def made(
    text: str, tmp_path: Path, **stops: list[OperationFailed]
) -> tuple[Runner, Scripted, list[str]]:
    pipeline: Pipeline = load_text(text, "p").required()
    engine = Scripted({name: JobStatus(RUNNING) for name in pipeline.jobs}, stops)
    fleet = Fleet(
        pipeline,
        Folders(tmp_path, tmp_path),
        cast(Java, None),
        {"here": cast(AttachedKafka, Ends())},
        {"here/main": cast(Any, engine)},
    )
    said: list[str] = []
    runner = Runner(pipeline, fleet, tmp_path, said.append)
    for name, job in runner.queries.jobs.items():
        runner._orders[name] = JobOrder(pipeline, job, {}, tmp_path / name, tmp_path)
    return runner, engine, said


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "FIRST_SECONDS", 0.01)


def test_all_are_drained_in_the_direction_of_the_data(tmp_path: Path) -> None:
    runner, engine, _ = made(TEXT, tmp_path)
    runner.drain()
    assert engine.log == [
        ("stop", "source", {}),
        ("stop", "clean", {"raw": {0: 3}}),
        ("stop", "last", {"clean": {0: 5}}),
    ]


def test_a_job_that_fails_while_it_is_drained_is_started_again(tmp_path: Path) -> None:
    runner, engine, said = made(TEXT, tmp_path, clean=[not_drained("clean")] * 2)
    runner.drain()
    assert [(what, job) for what, job, _ in engine.log] == [
        ("stop", "source"),
        *[("stop", "clean"), ("start", "clean")] * 2,
        ("stop", "clean"),
        ("stop", "last"),
    ]
    assert sum("clean was not drained" in text for text in said) == 2
    assert runner.restarts == {"clean": 2}


def test_a_job_that_had_failed_before_is_not_drained(tmp_path: Path) -> None:
    runner, engine, _ = made(TEXT, tmp_path)
    engine.jobs["source"] = JobStatus(FAILED, error="the disk is full")
    runner.drain()
    assert engine.log[:2] == [("start", "source", None), ("stop", "source", {})]


def test_a_drain_has_an_end_and_says_why(tmp_path: Path) -> None:
    runner, engine, _ = made(TEXT, tmp_path, clean=[not_drained("clean")] * 99)
    with pytest.raises(OperationFailed, match="clean was not drained: it ended"):
        runner.drain()
    assert [job for what, job, _ in engine.log if what == "stop"] == [
        "source",
        *["clean"] * DRAINS,
        "last",
    ]


def test_what_trying_again_can_not_help_is_not_tried_again(tmp_path: Path) -> None:
    slow = OperationFailed("too-slow", "job clean was not drained within 600 s", transient=True)
    runner, engine, _ = made(TEXT, tmp_path, clean=[slow])
    engine.jobs["last"] = JobStatus(FAILED, error="bad code", hint="mend it", transient=False)
    with pytest.raises(OperationFailed, match="600 s"):
        runner.drain()
    assert [job for _, job, _ in engine.log] == ["source", "clean"]


def settled(runner: Runner) -> None:
    runner.tick()
    for pending in runner._work.values():
        pending.result()


def test_a_job_over_that_was_not_drained_is_not_over(tmp_path: Path) -> None:
    runner, engine, said = made(TEXT, tmp_path, clean=[not_drained("clean")])
    engine.jobs["source"] = JobStatus(JobState.ENDED)
    settled(runner)
    assert engine.jobs["clean"].state is FAILED
    assert "job clean is over" not in said
    for _ in range(5):
        settled(runner)
    assert said[-2:] == ["job clean is over", "job last is over"]
    assert runner.complete


def test_a_source_whose_time_is_over_is_not_read_to_its_end(tmp_path: Path) -> None:
    runner, engine, _ = made(TEXT.replace("to: raw}", "to: raw, end: {after: 1 s}}"), tmp_path)
    runner._begun["source"] = -9.0
    settled(runner)
    assert engine.log == [("stop", "source", None)]


def test_a_pipeline_ends_though_a_job_was_given_up(tmp_path: Path) -> None:
    """What comes after it gets nothing any more."""
    runner, engine, _ = made(TEXT, tmp_path)
    engine.jobs["source"] = JobStatus(JobState.ENDED)
    engine.jobs["clean"] = JobStatus(FAILED, error="job clean: bad record", transient=False)
    settled(runner)
    settled(runner)
    assert engine.log == [("stop", "last", {"clean": {0: 5}})]
    assert runner.complete
    assert runner.given_up == {"clean": "job clean: bad record"}
