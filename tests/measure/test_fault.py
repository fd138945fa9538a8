"""A run without load, or with a fault that hit nothing, proves nothing."""

from __future__ import annotations

import json

import pytest

from millrace.measure.fault import Fault, RunReport
from millrace.measure.report import Found, Report

CLEAN = Report(sent=10, read=10)


def run(report: Report = CLEAN, *faults: Fault) -> RunReport:
    return RunReport(report, 100.0, 160.0, faults)


@pytest.mark.parametrize("at", [100.0, 130.0, 160.0])
def test_a_fault_during_the_load_with_an_effect_is_evidence(at: float) -> None:
    assert run(CLEAN, Fault("kill", at, "pid 12 -> 40")).ok


@pytest.mark.parametrize("at", [99.9, 160.1])
def test_a_fault_outside_the_load_is_none(at: float) -> None:
    (problem,) = run(CLEAN, Fault("kill", at, "pid 12 -> 40")).problems()
    assert "kill" in problem
    assert "outside the load of 60.0 s" in problem


@pytest.mark.parametrize("effect", ["", "  \n"])
def test_a_fault_without_effect_is_none(effect: str) -> None:
    assert run(CLEAN, Fault("kill", 130.0, effect)).problems() == ["fault kill: no effect was seen"]


def test_a_run_that_sent_nothing_shows_nothing() -> None:
    assert run(Report(sent=0, read=0)).problems() == ["nothing was sent: the run shows nothing"]


def test_problems_of_the_records_count_too() -> None:
    repeated = Report(sent=10, read=12, duplicate=Found(2, ((0, 1), (0, 2))))
    assert not run(repeated).ok
    assert run(repeated).problems(most_duplicates=2) == []


def test_the_document_says_it_all() -> None:
    document = json.loads(json.dumps(run(CLEAN, Fault("kill", 130.0)).document()))
    assert document["ok"] is False
    assert document["problems"] == ["fault kill: no effect was seen"]
    assert document["load"] == {"started": 100.0, "ended": 160.0}
    assert document["faults"] == [{"name": "kill", "at": 130.0, "effect": ""}]
    assert document["report"]["sent"] == 10
