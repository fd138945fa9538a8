"""What the loss of sites means for the queries that were there; decided from what is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from millrace.coordinator.deployment import Deployment, Placed
from millrace.errors import OperationFailed
from millrace.model.impact import Impact
from millrace.model.job import Job
from millrace.model.policy import CheckpointAt
from millrace.model.step import Action, Kind, Plan, Reason, Step


def check_lost(lost: frozenset[str], known: frozenset[str]) -> None:
    """Raise for a site that nobody knows: who gives up the wrong one would wait for the right."""
    for site in sorted(lost - known):
        raise OperationFailed(
            "unknown-site",
            f"no site is called {site!r}, so it can't be lost",
            f"name one of {', '.join(sorted(known))}" if known else "leave it out",
        )


def with_losses(
    steps: Plan,
    deployment: Deployment,
    queries: Mapping[str, Job],
    sites: Mapping[str, str],
    lost: frozenset[str],
) -> Plan:
    """Return a plan to these queries that says what is lost with sites that are.

    `sites` are those of the streams that are there: at a lost one nothing is read to its end.
    """
    found = []
    for step in steps.steps:
        placed = deployment.jobs.get(step.name) if step.kind is Kind.JOB else None
        moves = step.action in (Action.MOVE, Action.CHANGE) and step.name in queries
        if placed is not None and moves and placed.site in lost:
            step = _told(step, queries[step.name], placed)  # noqa: PLW2901 - the same step
        drains = tuple(name for name in step.drains if sites.get(name) not in lost)
        found.append(replace(step, drains=drains))
    return replace(steps, steps=tuple(found)) if lost else steps


def _told(step: Step, job: Job, placed: Placed) -> Step:
    """A step with what it means that the site is lost at which its job was."""
    if job.checkpoint.place is CheckpointAt.SHARED:
        text = f"site {placed.site} is lost: it goes on from its shared checkpoint"
        return replace(step, reasons=(*step.reasons, Reason(text, Impact.RESTART)))
    if step.stateful is False:
        text = (
            f"site {placed.site} is lost: it goes on from the positions that were reported last, "
            "and what it did after that is done again"
        )
        return replace(step, reasons=(*step.reasons, Reason(text, Impact.RESTART)))
    text = f"site {placed.site} is lost, and what the job kept there with it"
    reason = Reason(text, Impact.STATE_LOST)
    return replace(step, reasons=(*step.reasons, reason), impact=Impact.STATE_LOST, keeps=())
