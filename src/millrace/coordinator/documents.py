"""Operations and deployments as a store keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from millrace.coordinator.deployment import Deployment, Placed
from millrace.coordinator.operation import Operation, OperationState
from millrace.model.job import Mode
from millrace.model.status import Facts, JobFacts
from millrace.ports.link import JobGoal, Positions
from millrace.wire import plan_of

_THINGS = ("streams", "dropped", "brokers")
_QUERIES = ("jobs", "inside")


def operation_document(operation: Operation) -> dict[str, Any]:
    """Return an operation as plain data, but for its plan."""
    return {
        "id": operation.id,
        "pipeline": operation.pipeline,
        "before": operation.before,
        "wanted": operation.wanted,
        "state": operation.state.value,
        "done": dict(operation.done),
        "ordered": sorted(operation.since),
        "downtime": dict(operation.downtime),
        "why": operation.why,
        "reason": operation.reason,
        "state_loss": operation.state_loss,
        "keeps": operation.keeps,
        "lost": sorted(operation.lost),
        "ends": dict(operation.ends),
        "left": dict(operation.left),
        "remade": sorted(operation.remade),
    }


def operation_of(document: Mapping[str, Any], plan: Mapping[str, Any], now: float) -> Operation:
    """Return the operation of its document; what is on its way has all its time again from now."""
    known = dict(document)
    since = dict.fromkeys(known.pop("ordered"), now)
    parsed = {
        "plan": plan_of(plan),
        "state": OperationState(known["state"]),
        "since": since,
        "lost": frozenset(known["lost"]),
        "ends": _positions_of(known.get("ends", {})),
        "left": _positions_of(known.get("left", {})),
        "remade": frozenset(known.get("remade", ())),
    }
    return Operation(**{**known, **parsed})


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
    whole = _shallow(deployment)
    whole |= {name: sorted(whole[name]) for name in _THINGS}
    for kind in _QUERIES:
        whole[kind] = {name: _placed_document(placed) for name, placed in whole[kind].items()}
    return _said(whole)


def _placed_document(placed: Placed) -> dict[str, Any]:
    return _said({**_shallow(placed), "goal": _shallow(placed.goal)})


def _shallow(thing: Deployment | Placed | JobGoal) -> dict[str, Any]:
    """A thing by its fields, as they are: a copy of all below them would take long."""
    return {field.name: getattr(thing, field.name) for field in fields(thing)}


def _said(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is empty; that something does not run is told."""
    empty: tuple[Any, ...] = (None, {}, (), [])
    found = {key: value for key, value in document.items() if value not in empty}
    for key in ("ended", "to_end", "vouched"):
        if not found.get(key, True):
            del found[key]
    return {key: _said(value) if key == "goal" else value for key, value in found.items()}


def deployment_of(document: Mapping[str, Any]) -> Deployment:
    """Return the deployment of its document."""
    queries = {
        kind: {name: _placed_of(placed) for name, placed in document.get(kind, {}).items()}
        for kind in _QUERIES
    }
    things = {
        name: frozenset((one, number) for one, number in document.get(name, ())) for name in _THINGS
    }
    return Deployment(**{**document, **queries, **things})


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
