"""What is known of jobs by what their cluster shows, or does not show."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from millrace.engines.flink.rest import SeenJob, Slots
from millrace.engines.flink.runs import QUICK_FAILURES, Run, Runs
from millrace.engines.flink.states import begun, short_of_slots
from millrace.ports import JobOrder, JobState
from millrace.spec import load_text

TEXT = """
pipeline: p
sites: {here: {engine: flink, broker: kafka}}
streams: {raw: {schema: {n: int}}, done: {schema: {n: int}}}
jobs: {own: {engine: flink, from: raw, to: done, jar: own.jar}}
"""
PIPELINE = load_text(TEXT, "p.yaml").required()
ORDER = JobOrder(PIPELINE, PIPELINE.jobs["own"], {}, Path("place"), Path("code"))
URL = "http://h:1"


def added(runs: Runs, run: str = "id", *, ago: float = 1.0) -> Run:
    found = Run(ORDER, run, time.monotonic() - ago, begun(run), "savepoints/x")
    runs.add(found)
    return found


def shown(state: str, tasks: Mapping[str, int] | None = None) -> dict[str, SeenJob]:
    return {"id": SeenJob("id", "name", state, tasks or {"running": 2}, 0.0)}


@pytest.mark.parametrize(
    ("state", "tasks", "told"),
    [
        ("INITIALIZING", {}, JobState.STARTING),
        ("CREATED", {"created": 2}, JobState.STARTING),
        ("RUNNING", {"scheduled": 1, "running": 1}, JobState.STARTING),
        ("RUNNING", {"finished": 1, "running": 1}, JobState.RUNNING),
        ("RESTARTING", {}, JobState.STARTING),
        ("FAILED", {}, JobState.FAILED),
        ("FINISHED", {}, JobState.ENDED),
        ("CANCELED", {}, JobState.STOPPED),
    ],
)
def test_states(state: str, tasks: dict[str, int], told: JobState) -> None:
    runs = Runs(lambda: URL)
    added(runs)
    runs.seen(shown(state, tasks), time.monotonic(), {"id": "why"})
    status = runs.statuses()["own"]
    assert status.state is told
    assert status.run == "id"
    if state in ("FAILED", "RESTARTING"):
        assert "why" in status.error
        assert URL in status.hint


def test_a_cluster_that_is_away_makes_no_job_fail() -> None:
    runs = Runs(lambda: URL)
    added(runs)
    runs.seen(shown("RUNNING"), time.monotonic(), {})
    runs.away("it can't be reached")
    status = runs.statuses()["own"]
    assert status.state is JobState.RUNNING
    assert "can't be reached" in status.error
    runs.seen(shown("RUNNING"), time.monotonic(), {})
    assert runs.statuses()["own"].error == ""


def test_a_job_that_its_cluster_lost_failed_for_a_while() -> None:
    runs = Runs(lambda: URL, absent_seconds=0.05)
    run = added(runs)
    runs.seen({}, run.began - 1, {})  # asked before it was there
    assert run.absent == 0.0
    runs.seen({}, time.monotonic(), {})
    assert runs.statuses()["own"].state is JobState.STARTING
    time.sleep(0.06)
    runs.seen({}, time.monotonic(), {})
    status = runs.statuses()["own"]
    assert (status.state, status.transient) == (JobState.FAILED, True)
    assert "savepoints/x" in status.hint


def test_a_job_that_always_fails_at_once_is_given_up() -> None:
    runs = Runs(lambda: URL)
    told = []
    for _ in range(QUICK_FAILURES):
        added(runs)
        runs.seen(shown("FAILED"), time.monotonic(), {"id": "why"})
        told.append(runs.statuses()["own"].transient)
    assert told == [True] * (QUICK_FAILURES - 1) + [False]


def test_what_is_over_stays_over() -> None:
    runs = Runs(lambda: URL)
    added(runs)
    runs.seen(shown("FINISHED"), time.monotonic(), {})
    runs.seen({}, time.monotonic(), {})
    runs.away("gone")
    runs.gone("log")
    assert runs.statuses()["own"].state is JobState.ENDED
    assert runs.statuses()["own"].error == ""


def test_records_are_counted_by_run() -> None:
    runs = Runs(lambda: URL)
    run = added(runs)
    runs.counted(run, (10, 5), 100.0)
    runs.counted(run, (30, 15), 110.0)
    progress = runs.statuses()["own"].progress
    assert (progress.fates.read, progress.fates.written) == (30, {"done": 15})
    assert progress.rows_per_second == 2.0


def test_why_a_job_waits() -> None:
    seen = SeenJob("id", "name", "RUNNING", {"scheduled": 3})
    assert "no TaskManager" in short_of_slots("own", seen, Slots(0, 0, 0))
    assert "all 4 task slots are taken, and 3 more" in short_of_slots("own", seen, Slots(1, 4, 0))
    assert short_of_slots("own", seen, Slots(1, 4, 1)) == ""
