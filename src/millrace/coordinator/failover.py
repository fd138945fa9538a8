"""Queries whose leases ran out: where they may start, and what if that does not work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from millrace.coordinator.board import Board
from millrace.coordinator.operation import OperationState
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.site import Site

#: Who brings the file of a failover.
FAILOVER = "failover"
#: An agent has so long to stop a query whose lease has run out, in seconds.
GRACE_SECONDS = 30.0
_FAILED = (OperationState.REFUSED, OperationState.STUCK, OperationState.UNDONE)


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


def gone_back(board: Board) -> Board:
    """Return the board on which queries run again whose failover did not work; or the same one."""
    operation = board.operation
    failed = operation is not None and operation.state in _FAILED
    if operation is None or not failed or board.revisions[operation.wanted].by != FAILOVER:
        return board
    deployment = board.deployment
    for name, placed in deployment.jobs.items():
        if not placed.goal.running and not placed.ended:
            number = deployment.generation + 1
            goal = replace(placed.goal, running=True, generation=number)
            deployment = deployment.with_job(name, replace(placed, goal=goal))
    return board if deployment is board.deployment else replace(board, deployment=deployment)
