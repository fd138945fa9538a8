"""Which queries of a pipeline are over, in the order of the graph; decided from reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from millrace.agent.ends import feeders, over
from millrace.coordinator.board import Board
from millrace.coordinator.phases import Reports
from millrace.model.job import Job
from millrace.ports import Entry, EntryKind, JobState


def with_ends(
    board: Board, reports: Reports, seconds: Mapping[str, float]
) -> tuple[Board, tuple[Entry, ...]]:
    """Return the board on which the queries end that are over; the same one where none is.

    `seconds` is for how long each query has been running. Each reads its inputs to their ends
    first, but for one whose time is up: there may be no end to what it reads. Nothing ends in the
    middle of a change.
    """
    if board.busy or not board.deployment.jobs:
        return board, ()
    queries = board.files.queries(board.current)
    states = _states(board, reports)
    entries: list[Entry] = []
    deployment = board.deployment
    for job in over(queries, feeders(board.file), states, seconds):
        placed = deployment.jobs.get(job.name)
        if placed is None or placed.ended:
            continue
        goal = replace(placed.goal, running=False, drains=tuple(job.follows))
        deployment = deployment.with_job(job.name, replace(placed, goal=goal, ended=True))
        entries.append(Entry(EntryKind.EVENT, f"job {board.name}/{job.name}", {"state": "ending"}))
    if not entries:
        return board, ()
    return replace(board, deployment=deployment), tuple(entries)


def _states(board: Board, reports: Reports) -> dict[str, JobState]:
    """What each job does; of one that failed for good nothing comes any more either."""
    found: dict[str, JobState] = {}
    for name, job in board.files.queries(board.current).jobs.items():
        state = state_of(board, name, reports)
        if state is not None:
            found |= dict.fromkeys(_names(job), state)
    return found


def state_of(board: Board, query: str, reports: Reports) -> JobState | None:
    """Return what a query does, as far as others must know; None where that is unknown."""
    placed = board.deployment.jobs.get(query)
    report = reports.get(placed.site) if placed is not None else None
    told = report.jobs.get(query) if report is not None else None
    if placed is None or told is None or told.generation != placed.goal.generation:
        return None
    if told.state is JobState.FAILED and not told.transient:
        return JobState.ENDED
    if placed.ended:
        over_now = told.state in (JobState.STOPPED, JobState.ENDED)
        return JobState.ENDED if over_now else JobState.RUNNING
    return told.state


def _names(job: Job) -> tuple[str, ...]:
    return (job.name, *(member.name for member in job.members))
