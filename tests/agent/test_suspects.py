"""Which jobs get drivers of their own when the one they share dies again and again."""

from __future__ import annotations

from millrace.agent.suspects import MOST, suspects
from millrace.model.job import Job
from millrace.spec import load_text

TEXT = """
pipeline: p
sites: {here: {broker: kafka}}
streams: {raw: {schema: {a: int}}, out: {}}
jobs:
  sql: {from: raw, to: out, sql: "SELECT a FROM raw"}
  map: {from: raw, to: out, map: "code:f"}
  python: {from: raw, to: out, python: "code:g"}
"""
JOBS: list[Job] = list(load_text(TEXT, "p").required().jobs.values())


def names(before: dict[str, int], now: dict[str, int]) -> list[str]:
    return [job.name for job in suspects(JOBS, before, now)]


def test_code_of_users_that_got_nowhere_comes_first() -> None:
    assert names({}, {}) == ["map", "python"]
    assert names({"map": 3}, {"map": 4}) == ["python"]


def test_a_query_is_suspected_when_all_code_of_users_works() -> None:
    assert names({"map": 3, "python": 0}, {"map": 4, "python": 1}) == ["sql"]


def test_jobs_that_all_work_are_left_together() -> None:
    assert names({}, {"map": 0, "python": 0, "sql": 0}) == []


def test_a_job_alone_is_not_moved() -> None:
    assert suspects(JOBS[1:2], {}, {}) == ()


def test_not_all_of_many_get_a_driver_at_once() -> None:
    assert len(suspects(JOBS * 10, {}, {})) == MOST
