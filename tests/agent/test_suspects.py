"""Which jobs get drivers of their own when the one they share dies again and again."""

from __future__ import annotations

from millrace.agent.suspects import DEATHS, MOST, WITHIN_SECONDS, Lives
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
NOWHERE = {"sql": -1, "map": -1, "python": -1}


def names(*deaths: dict[str, int], apart: float = 30.0) -> list[str]:
    lives = Lives()
    for number, batches in enumerate(deaths):
        lives.died(number * apart, {**NOWHERE, **batches})
    return [job.name for job in lives.suspects(JOBS)]


def test_one_death_or_two_say_nothing() -> None:
    assert names(*[{}] * (DEATHS - 1)) == []


def test_code_of_users_that_got_nowhere_comes_first() -> None:
    assert names({}, {}, {}) == ["map", "python"]
    assert names({}, {}, {"map": 0}) == ["python"]


def test_a_query_is_suspected_when_all_code_of_users_works() -> None:
    assert names(*({"map": life, "python": life} for life in range(DEATHS))) == ["sql"]


def test_jobs_that_all_work_are_left_together_however_often_their_driver_dies() -> None:
    assert names(*({"map": life, "python": life, "sql": life} for life in range(50))) == []


def test_work_of_an_earlier_life_clears_nobody() -> None:
    worked = {"map": 7, "sql": 7, "python": 7}
    assert names(worked, {**worked, "map": -1}, worked, worked) == ["map", "python"]


def test_deaths_of_long_ago_are_forgotten() -> None:
    assert names(*[{}] * 10, apart=WITHIN_SECONDS / 2 + 1) == []


def test_a_job_alone_is_not_moved() -> None:
    lives = Lives()
    for now in range(DEATHS):
        lives.died(now, NOWHERE)
    assert lives.suspects(JOBS[1:2]) == ()


def test_not_all_of_many_get_a_driver_at_once() -> None:
    lives = Lives()
    for now in range(DEATHS):
        lives.died(now, NOWHERE)
    assert len(lives.suspects(JOBS * 10)) == MOST
