"""What standing still is foreseen for: whatever step it is that starts the job again."""

from __future__ import annotations

from millrace.model.step import Action
from millrace.plan.downtime import Estimates, foreseen
from tests.plan.test_planner import BASE, between, of, step


def test_a_job_that_stops_for_a_stream_stands_still_until_it_starts() -> None:
    found = between(of(BASE), of(BASE.replace("b: {site: n, ", "b: {site: n, partitions: 3, ")))
    assert step(found, "start job k").action is Action.START
    assert foreseen(step(found, "start job k"), Estimates(restart=3.0)) == 3.0
    assert foreseen(step(found, "stop job k"), Estimates(restart=3.0)) == 0.0
