"""What the loss of sites means for the queries that were there; decided from what is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from millrace.coordinator.deployment import Deployment, Placed
from millrace.model.impact import Impact
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.policy import CheckpointAt
from millrace.model.site import Site
from millrace.model.step import Action, Kind, Plan, Reason, Step

#: An agent has so long to stop a query whose lease has run out, in seconds.
GRACE_SECONDS = 30.0


def with_losses(
    steps: Plan, deployment: Deployment, queries: Mapping[str, Job], lost: frozenset[str]
) -> Plan:
    """Return a plan to these queries that says what is lost with sites that are."""
    found = []
    for step in steps.steps:
        placed = deployment.jobs.get(step.name) if step.kind is Kind.JOB else None
        moves = step.action in (Action.MOVE, Action.CHANGE) and step.name in queries
        if placed is not None and moves and placed.site in lost:
            found.append(_told(step, queries[step.name], placed))
        else:
            found.append(step)
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


def expired(job: Job, silent: float) -> bool:
    """Whether the lease of a query has run out, the time that its agent has to stop it included."""
    return job.lease is not None and silent > job.lease + GRACE_SECONDS


def failed_over(
    file: Pipeline, queries: Mapping[str, Job], there: frozenset[str]
) -> tuple[Pipeline, list[str]]:
    """Return a file in which queries run elsewhere, and the names of those that do.

    Each takes the first site of the file that is heard of, `there`, and has its engine.
    """
    jobs, moved = dict(file.jobs), []
    for name, query in queries.items():
        members = query.members or (query,)
        fit = [
            site.name for site in file.sites.values() if site.name in there and _has(site, members)
        ]
        if fit:
            moved.append(name)
            jobs |= {one.name: replace(jobs[one.name], site=fit[0]) for one in members}
    return replace(file, jobs=jobs), moved


def _has(site: Site, jobs: tuple[Job, ...]) -> bool:
    """Whether a site has the engines that jobs need."""
    return all(job.needs is None or site.engine(job.needs) is not None for job in jobs)
