"""Pipelines, plans and problems as plain data, ready for JSON or YAML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from millrace.errors import Diagnostic, Location
from millrace.model.impact import Impact
from millrace.model.pipeline import Pipeline
from millrace.model.step import Action, Kind, Plan, Reason, Step
from millrace.model.text import written


def pipeline_document(pipeline: Pipeline) -> dict[str, Any]:
    """Return the native document; read again it gives an equal pipeline."""
    document: dict[str, Any] = {"pipeline": pipeline.name}
    if pipeline.description:
        document["description"] = pipeline.description
    named = [thing.group for thing in pipeline.streams.values()]
    named += [thing.group for thing in pipeline.jobs.values()]
    groups: dict[str, Any] = {name: {} for name in named if name is not None}
    if groups:
        document["groups"] = groups
    for section in ("sites", "pilots", "streams", "jobs"):
        things = getattr(pipeline, section)
        if things:
            document[section] = {name: written(thing) for name, thing in things.items()}
    return {key: _escaped(value) for key, value in document.items()}


def _escaped(value: Any) -> Any:
    """Keep texts that look like expressions from being worked out."""
    if isinstance(value, str):
        return value.replace("${{", "$${{")
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    return value


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return a plan: steps in order, counts, notes."""
    return {
        "steps": [step_document(step) for step in plan.steps],
        "counts": dict(Counter(f"{step.action} {step.kind}" for step in plan.steps)),
        "untouched_jobs": plan.untouched,
        "notes": list(plan.notes),
    }


def step_document(step: Step) -> dict[str, Any]:
    """Return a step; `after` names other steps by their `id`."""
    return {
        "id": step.id,
        "action": step.action.value,
        "kind": step.kind.value,
        "name": step.name,
        "place": step.place,
        "impact": "none" if step.impact is None else step.impact.text,
        "reasons": [_reason(reason) for reason in step.reasons],
        "keeps": list(step.keeps),
        "stateful": step.stateful,
        "drains": list(step.drains),
        "joins": list(step.joins),
        "after": list(step.after),
    }


def plan_of(document: Mapping[str, Any]) -> Plan:
    """Return the plan of its document."""
    steps = tuple(_step_of(step) for step in document["steps"])
    return Plan(steps, document["untouched_jobs"], tuple(document["notes"]))


def _step_of(document: Mapping[str, Any]) -> Step:
    return Step(
        Action(document["action"]),
        Kind(document["kind"]),
        document["name"],
        document["place"],
        _impact_of(document["impact"]),
        tuple(_reason_of(reason) for reason in document["reasons"]),
        tuple(document["keeps"]),
        document["stateful"],
        tuple(document["drains"]),
        tuple(document["joins"]),
        tuple(document["after"]),
    )


def _impact_of(text: str) -> Impact | None:
    return next((impact for impact in Impact if impact.text == text), None)


def _reason_of(document: Mapping[str, str]) -> Reason:
    impact = _impact_of(document["impact"]) or Impact.IGNORE
    named = {key: document[key] for key in ("field", "old", "new") if key in document}
    return Reason(document["text"], impact, **named)


def _reason(reason: Reason) -> dict[str, str]:
    document = {"text": reason.text, "impact": reason.impact.text}
    if reason.field:
        document |= {"field": reason.field, "old": reason.old, "new": reason.new}
    return document


def diagnostic_document(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a problem; what it does not have is left out."""
    document: dict[str, Any] = {
        "severity": diagnostic.severity.value,
        "code": diagnostic.code,
        "message": diagnostic.message,
    }
    if diagnostic.at is not None:
        document["location"] = _location(diagnostic.at)
    for key in ("found", "expected", "nearest", "hint"):
        if text := getattr(diagnostic, key):
            document[key] = text
    if diagnostic.related:
        document["related"] = [
            {"location": _location(at), "text": text} for at, text in diagnostic.related
        ]
    return document


def _location(at: Location) -> dict[str, Any]:
    return {"file": at.file, "line": at.line, "column": at.column}
