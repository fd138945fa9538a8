from __future__ import annotations

import json

from millrace.errors import Diagnostic, Location
from millrace.model.status import Observed
from millrace.plan import plan
from millrace.spec import load, load_text
from millrace.wire import diagnostic_document, pipeline_document, plan_document
from tests.conftest import FIXTURES


def test_a_plan_is_plain_json() -> None:
    old = load(FIXTURES / "speck-listing-1.1.yaml").required()
    new = load(FIXTURES / "speck-listing-1.2.yaml").required()
    document = plan_document(plan(new, Observed(old), {}))
    assert json.loads(json.dumps(document)) == document
    change = next(step for step in document["steps"] if step["id"] == "change job C")
    assert change["reasons"] == [
        {
            "text": "to: [T-D-merger] -> [T-C2-filter]",
            "impact": "restart with state",
            "field": "to",
            "old": "[T-D-merger]",
            "new": "[T-C2-filter]",
        }
    ]
    assert change["stateful"] is None
    assert document["counts"]["create job"] == 1
    assert document["untouched_jobs"] == 1


def test_a_pipeline_declares_the_groups_it_uses_and_escapes_what_looks_like_an_expression() -> None:
    pipeline = load_text("""
pipeline: p
description: "$${{ x }}"
groups: {g: {jobs: {replicas: 2}}, unused: }
streams: {s: {}}
jobs: {j: {from: s, sql: x, group: g}}
""").required()
    document = pipeline_document(pipeline)
    assert document["groups"] == {"g": {}}
    assert document["description"] == "$${{ x }}"
    assert document["jobs"]["j"]["replicas"] == 2


def test_a_problem_leaves_out_what_it_does_not_have() -> None:
    assert diagnostic_document(Diagnostic("c", "m")) == {
        "severity": "error",
        "code": "c",
        "message": "m",
    }
    whole = Diagnostic(
        "c", "m", Location("f", 2, 3), "a", "b", "n", "h", related=((Location("g"), "there"),)
    )
    assert diagnostic_document(whole)["related"] == [
        {"location": {"file": "g", "line": 1, "column": 1}, "text": "there"}
    ]
