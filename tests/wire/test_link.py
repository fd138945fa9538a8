"""Goals and reports over the network: nothing is lost, and nothing but them is taken."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.errors import OperationFailed
from millrace.model import Pipeline
from millrace.model.job import Mode
from millrace.ports.engine import Fates, JobState, Progress
from millrace.ports.link import JobReport, PipelineGoal, PipelineReport, SiteGoal, SiteReport
from millrace.spec import FileFormat, load_text
from millrace.wire import goal_document, goal_of, pipeline_document, report_document, report_of
from tests.strategies import pipelines
from tests.wire.messages import plain, site_goals, site_reports

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def read(document: Mapping[str, Any]) -> Pipeline:
    return load_text(json.dumps(document), file_format=FileFormat.NATIVE).required()


def sent(document: Any) -> Any:
    """Return a document as its receiver has it."""
    return json.loads(json.dumps(document, allow_nan=False))


def of_goal(document: Any) -> SiteGoal:
    return goal_of(document, read)


SMALL = load_text("{pipeline: p, streams: {s: {}}, jobs: {j: {from: s, sql: x}}}").required()
GOAL_DOCUMENT = {
    "generation": 3,
    "pipelines": {
        "p": {
            "revisions": {"12": pipeline_document(SMALL)},
            "code": {"12": "a1"},
            "brokers": {"east": "east:9092"},
            "serving": 12,
            "streams": [["s", 4], ["s", 12], ["t", 12]],
            "dropped": [["u", 4]],
            "jobs": {
                "j": {
                    "revision": 12,
                    "generation": 5,
                    "folder": 2,
                    "drains": ["s"],
                    "begins": {"s": {"0": 7, "10": 8}},
                    "since": 99,
                    "brought": ["west", 1],
                }
            },
            "offers": [["k", 1]],
            "parcels": {"j": "a2"},
            "examined": 12,
            "queries": ["j", "k"],
        }
    },
    "questions": {"q": {"pipeline": "p", "about": "log", "name": "j", "options": {"lines": 10}}},
}
REPORT_DOCUMENT = {
    "site": "east",
    "generation": 3,
    "pipelines": {
        "p": {
            "broker": "east:9092",
            "streams": [["s", 12], ["t", 12]],
            "gone": [["u", 4]],
            "jobs": {
                "j": {
                    "generation": 5,
                    "state": "failed",
                    "run": "r1",
                    "progress": {
                        "batch": 4,
                        "at": 1.5,
                        "positions": {"s": {"10": 8}},
                        "rows_per_second": 2.0,
                        "batch_seconds": 0.5,
                        "fates": {"read": 2, "used": 2, "filtered": 0, "written": {"t": 1}},
                        "skew_seconds": 0.0,
                    },
                    "error": "no",
                    "hint": "do",
                    "transient": False,
                    "mode": "micro-batch",
                    "lag": {"s": 6},
                    "behind": {"s": 0.25},
                }
            },
            "errors": {"t": "no"},
            "examined": 12,
            "facts": {
                "j": {
                    "mode": "auto",
                    "reasons": ["r"],
                    "schemas": {"t": {"a": "int"}},
                    "operators": ["o"],
                    "stateful": False,
                }
            },
            "refused": {"k": "why"},
            "offered": [[["j", 2], "a4"], [["k", 1], "a3"]],
        }
    },
    "answers": {"q": {"lines": ["x"]}},
}


@settings(max_examples=60, suppress_health_check=SLOW)
@given(site_goals(pipelines()))
def test_a_goal_arrives_as_it_was_sent(goal: SiteGoal) -> None:
    assert of_goal(sent(goal_document(goal))) == goal


@settings(suppress_health_check=SLOW)
@given(site_reports)
def test_a_report_arrives_as_it_was_sent(report: SiteReport) -> None:
    assert report_of(sent(report_document(report))) == report


def test_the_shape_is_what_older_peers_know() -> None:
    # A field of the ports that is renamed would no longer be understood by those that run already.
    assert goal_document(of_goal(GOAL_DOCUMENT)) == GOAL_DOCUMENT
    assert report_document(report_of(REPORT_DOCUMENT)) == REPORT_DOCUMENT


def turned(value: Any) -> Any:
    """Return an equal value that was put together the other way round."""
    if isinstance(value, dict):
        return {key: turned(item) for key, item in reversed(value.items())}
    if isinstance(value, frozenset):
        return frozenset(reversed(list(value)))
    if dataclasses.is_dataclass(value) and not isinstance(value, type | Pipeline):
        fields = [item.name for item in dataclasses.fields(value)]
        return dataclasses.replace(value, **{name: turned(getattr(value, name)) for name in fields})
    return value


@settings(max_examples=60, suppress_health_check=SLOW)
@given(site_goals(pipelines()))
def test_equal_goals_have_equal_documents(goal: SiteGoal) -> None:
    other = turned(goal)
    assert other == goal
    texts = {json.dumps(goal_document(one), sort_keys=True) for one in (goal, other)}
    assert len(texts) == 1


def test_what_says_nothing_is_left_out() -> None:
    assert goal_document(SiteGoal(1)) == {"generation": 1}
    assert goal_document(SiteGoal(1, {"p": PipelineGoal()}))["pipelines"] == {"p": {}}
    assert report_document(SiteReport("east")) == {"site": "east"}


def test_a_fate_that_is_unknown_is_not_a_fate_of_none() -> None:
    def back(count: int | None) -> Any:
        job = JobReport(1, JobState.RUNNING, progress=Progress(fates=Fates(filtered=count)))
        report = SiteReport("east", 1, {"p": PipelineReport(jobs={"j": job})})
        found = report_of(sent(report_document(report)))
        return found.pipelines["p"].jobs["j"].progress.fates.filtered

    assert back(None) is None
    assert back(0) == 0


def test_an_idle_job_costs_less_than_120_bytes() -> None:
    run = "b7d2c1e0-4a5f-4c1d-9a53-5d3f0c1e2a44"
    job = JobReport(7, JobState.RUNNING, run, mode=Mode.REAL_TIME)
    names = [f"job-{number:03}" for number in range(100)]
    report = SiteReport("east", 3, {"p": PipelineReport(jobs=dict.fromkeys(names, job))})
    assert len(json.dumps(report_document(report)).encode()) < 100 * 120


def test_a_number_without_an_end_silences_nobody() -> None:
    idle = JobReport(1, JobState.RUNNING)
    job = dataclasses.replace(
        idle,
        progress=Progress(rows_per_second=math.inf, skew_seconds=math.nan),
        behind={"s": math.inf, "t": 1.0},
    )
    document = sent(report_document(SiteReport("east", 1, {"p": PipelineReport(jobs={"j": job})})))
    found = report_of(document).pipelines["p"].jobs["j"]
    assert found == dataclasses.replace(idle, behind={"t": 1.0})


def taken_or_refused(read_one: Callable[[Any], Any], document: Any) -> None:
    """Any other failure is the reader's, and so is a message that is as long as a peer likes."""
    problem = None
    try:
        read_one(document)
    except OperationFailed as error:
        problem = error
    if problem is not None:
        assert problem.code == "bad-message"
        assert problem.hint
        assert len(problem.message) < 1000


@given(plain)
def test_of_anything_a_goal_or_a_report_is_taken_or_refused(document: Any) -> None:
    taken_or_refused(of_goal, document)
    taken_or_refused(report_of, document)


def places(document: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to each value below a document."""
    keys: list[Any] = list(document) if isinstance(document, dict) else []
    if isinstance(document, list):
        keys = list(range(len(document)))
    return [way for key in keys for way in ((*at, key), *places(document[key], (*at, key)))]


@pytest.mark.parametrize(
    ("read_one", "whole_document"),
    [(of_goal, GOAL_DOCUMENT), (report_of, REPORT_DOCUMENT)],
    ids=["goal", "report"],
)
def test_a_spoilt_document_is_taken_or_refused(
    read_one: Callable[[Any], Any], whole_document: dict[str, Any]
) -> None:
    replacements = st.just(...) | st.sampled_from([math.nan, 10**400, "\ud800", -0.0]) | plain

    @settings(max_examples=400)
    @given(st.sampled_from(places(whole_document)), replacements)
    def spoil(way: tuple[Any, ...], replacement: Any) -> None:
        document = sent(whole_document)
        *above, last = way
        around = document
        for key in above:
            around = around[key]
        if replacement is ...:
            del around[last]
        else:
            around[last] = replacement
        taken_or_refused(read_one, document)

    spoil()


JOB = {"generation": 1, "state": "running"}


def of_job(**fields: Any) -> dict[str, Any]:
    return {"site": "east", "pipelines": {"p": {"jobs": {"j": JOB | fields}}}}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "'report' is None, not an object"),
        ({}, "'report' has no site"),
        ({"site": 1}, "'report/site' is 1, not a text"),
        ({"site": "east", "generation": True}, "'report/generation' is True, not a whole number"),
        ({"site": "east", "generation": None}, "'report/generation' is None, not a whole number"),
        ({"site": "east", "pipelines": []}, "'report/pipelines' is [], not an object"),
        (of_job(state="resting"), "not one of starting, running, stopped, ended, failed"),
        (of_job(transient=0), "/transient' is 0, not true or false"),
        (of_job(progress={"at": "now"}), "/at' is 'now', not a number"),
        (of_job(progress={"at": math.nan}), "/at' is nan, not a number"),
        (of_job(progress={"at": 10**400}), "/at' is inf, not a number"),
        (of_job(progress={"at": False}), "/at' is False, not a number"),
        (of_job(progress={"positions": {"s": {"01": 1}}}), "'01', which is not a whole number"),
        (of_job(progress={"positions": {"s": {"x": 1}}}), "'x', which is not a whole number"),
        ({"site": "east", "pipelines": {1: {}}}, "has the key 1, which is not a text"),
        ({"site": "east", "pipelines": {"p": {"streams": [["s"]]}}}, "is a list of 1, not of 2"),
        ({"site": "east", "pipelines": {"p": {"streams": "s"}}}, "is 's', not a list"),
        (
            {"site": "east", "pipelines": {"p": {"offered": [[["k", 1], "a"], [["k", 1], "b"]]}}},
            "'report/pipelines/p/offered' says two things of one",
        ),
    ],
)
def test_a_report_says_what_is_wrong_with_it(document: Any, message: str) -> None:
    with pytest.raises(OperationFailed) as refused:
        report_of(document)
    assert refused.value.code == "bad-message"
    assert message in refused.value.message


@pytest.mark.parametrize("revision", [{}, {"pipeline": "p", "jobs": 3}, 7, None])
def test_a_file_that_is_none_spoils_its_goal(revision: Any) -> None:
    with pytest.raises(OperationFailed, match="goal/pipelines/p/revisions/1' is ") as refused:
        of_goal({"generation": 1, "pipelines": {"p": {"revisions": {"1": revision}}}})
    assert refused.value.code == "bad-message"


@pytest.mark.parametrize("name", ["revision", "generation", "folder"])
def test_a_job_of_a_goal_needs_its_numbers(name: str) -> None:
    job = {"revision": 1, "generation": 1, "folder": 1}
    goal = {"generation": 1, "pipelines": {"p": {"jobs": {"j": job}}}}
    assert of_goal(goal).pipelines["p"].jobs["j"].running
    del job[name]
    with pytest.raises(OperationFailed, match=f"goal/pipelines/p/jobs/j' has no {name}"):
        of_goal(goal)


def test_what_newer_peers_add_is_ignored_and_whole_numbers_may_stand_for_others() -> None:
    found = report_of({**of_job(progress={"at": 2, "colour": "red"}), "mood": 1})
    at = found.pipelines["p"].jobs["j"].progress.at
    assert (at, type(at)) == (2.0, float)
