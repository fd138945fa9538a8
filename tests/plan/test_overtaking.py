"""A job that writes where one behind it wrote waits for that one: no record overtakes another."""

from __future__ import annotations

import pytest

from millrace.model import Pipeline
from millrace.spec import load_text
from tests.plan.test_plan_properties import try_out
from tests.plan.test_planner import before, between

HEAD = "pipeline: p\nsites: {n: {broker: kafka}}\ndefaults: {streams: {site: n}}\n"


def chain(*jobs: str) -> Pipeline:
    """Jobs as `name: from > to`."""
    ways = {name: way.split(" > ") for name, way in (job.split(": ") for job in jobs)}
    streams = sorted({stream for way in ways.values() for stream in way})
    lines = [
        f"  {name}: {{site: n, from: {read}, to: {written}, sql: SELECT * FROM {read}}}"  # noqa: S608
        for name, (read, written) in ways.items()
    ]
    named = "".join(f"  {stream}: {{}}\n" for stream in streams)
    return load_text(f"{HEAD}streams:\n{named}jobs:\n" + "\n".join(lines)).required()


LONG = ("j: a > b", "k: b > c", "l: c > d", "m: d > e")


@pytest.mark.parametrize(
    ("new", "gone"),
    [(("j: a > c", *LONG[2:]), ["k"]), (("j: a > d", LONG[3]), ["k", "l"])],
    ids=["one", "two"],
)
def test_a_job_that_takes_the_place_of_those_behind_it_stands_still_for_them(
    new: tuple[str, ...], gone: list[str]
) -> None:
    found = between(chain(*LONG), chain(*new))
    assert before(found, "stop job j", f"delete job {gone[0]}")
    assert before(found, f"delete job {gone[-1]}", "change job j")
    try_out(chain(*LONG), chain(*new), seed=1, orders=20)


def test_a_job_that_comes_in_between_waits_for_nobody() -> None:
    """What it reads is written when the other one has let go of where it writes."""
    found = between(chain(*LONG), chain("j: a > x", "new: x > b", *LONG[1:]))
    assert [step.id for step in found.steps if step.kind == "job"] == [
        "create job new",
        "change job j",
    ]


def test_jobs_side_by_side_that_change_places_wait_for_nobody() -> None:
    found = between(chain("j: a > b", "k: x > y"), chain("j: a > y", "k: x > b"))
    assert {step.id for step in found.steps} == {"change job j", "change job k"}
