"""Operations and deployments as a store keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from millrace.coordinator.deployment import Deployment, Placed
from millrace.coordinator.operation import Operation, OperationState
from millrace.model.job import Mode
from millrace.model.status import Facts, JobFacts
from millrace.ports.link import JobGoal, Positions
from millrace.wire import plan_document, plan_of

_THINGS = ("streams", "dropped", "brokers")


def operation_document(operation: Operation) -> dict[str, Any]:
    """Return an operation as plain data."""
    return {
        "id": operation.id,
        "pipeline": operation.pipeline,
        "before": operation.before,
        "wanted": operation.wanted,
        "plan": plan_document(operation.plan),
        "state": operation.state.value,
        "done": dict(operation.done),
        "ordered": sorted(operation.since),
        "why": operation.why,
        "reason": operation.reason,
    }


def operation_of(document: Mapping[str, Any], now: float) -> Operation:
    """Return the operation of its document; what is on its way has all its time again from now."""
    known = dict(document)
    since = dict.fromkeys(known.pop("ordered"), now)
    plan, state = plan_of(known["plan"]), OperationState(known["state"])
    return Operation(**{**known, "plan": plan, "state": state, "since": since})


def facts_document(facts: Facts) -> dict[str, Any]:
    """Return what engines found out as plain data."""
    return {name: asdict(known) for name, known in facts.items()}


def facts_of(document: Mapping[str, Any]) -> dict[str, JobFacts]:
    """Return the facts of their document."""
    found = {}
    for name, known in document.items():
        mode = Mode(known["mode"]) if known["mode"] is not None else None
        reasons, operators = tuple(known["reasons"]), tuple(known["operators"])
        found[name] = JobFacts(mode, reasons, known["schemas"], operators, known["stateful"])
    return found


def deployment_document(deployment: Deployment) -> dict[str, Any]:
    """Return a deployment as plain data; what says nothing is left out."""
    whole = asdict(deployment)
    whole |= {name: sorted(whole[name]) for name in _THINGS}
    whole["jobs"] = {name: _said(placed) for name, placed in whole["jobs"].items()}
    return _said(whole)


def _said(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is empty; what is told as false is not."""
    found = {key: value for key, value in document.items() if value not in (None, {}, (), [])}
    return {key: _said(value) if key == "goal" else value for key, value in found.items()}


def deployment_of(document: Mapping[str, Any]) -> Deployment:
    """Return the deployment of its document."""
    jobs = {name: _placed_of(placed) for name, placed in document.get("jobs", {}).items()}
    things = {
        name: frozenset((one, number) for one, number in document.get(name, ())) for name in _THINGS
    }
    return Deployment(**{**document, "jobs": jobs, **things})


def _placed_of(document: Mapping[str, Any]) -> Placed:
    goal = dict(document["goal"])
    goal["drains"] = tuple(goal.get("drains", ()))
    goal["begins"] = _positions_of(goal.get("begins", {}))
    if (brought := goal.get("brought")) is not None:
        goal["brought"] = (brought[0], brought[1])
    reached = _positions_of(document.get("reached", {}))
    return Placed(**{**document, "goal": JobGoal(**goal), "reached": reached})


def _positions_of(document: Mapping[str, Mapping[Any, int]]) -> Positions:
    """JSON knows only texts as keys."""
    return {
        stream: {int(part): at for part, at in parts.items()} for stream, parts in document.items()
    }
