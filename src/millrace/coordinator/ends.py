"""Which queries of a pipeline are over, in the order of the graph; decided from reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from millrace.agent.ends import feeders, over
from millrace.coordinator.board import Board
from millrace.coordinator.deployment import Deployment
from millrace.coordinator.phases import Reports
from millrace.model.job import Job
from millrace.ports import Entry, EntryKind, JobState


def with_ends(
    board: Board, reports: Reports, seconds: Mapping[str, float], *, failures: bool
) -> tuple[Board, tuple[Entry, ...]]:
    """Return the board on which the queries end that are over; the same one where none is.

    `seconds` is for how long each query has been running. Each reads its inputs to their ends
    first, but for one whose time is up: there may be no end to what it reads. Nothing ends in the
    middle of a change. Of a query that failed for good nothing comes any more, either, where
    `failures` says so: nobody will mend it. Who is over begins again when one of its writers does.
    """
    if board.busy or not board.deployment.jobs:
        return board, ()
    queries = board.files.queries(board.current)
    states = _states(board, reports, failures=failures)
    deployment, entries = _revived(board, states)
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


def _revived(board: Board, states: Mapping[str, JobState]) -> tuple[Deployment, list[Entry]]:
    """Let queries run again that were over before one of their writers was started."""
    deployment, entries = board.deployment, list[Entry]()
    writers = feeders(board.file)
    jobs = board.files.queries(board.current).jobs
    query = {name: job.name for job in jobs.values() for name in _names(job)}
    for name, placed in board.deployment.jobs.items():
        if not placed.ended or name not in jobs:
            continue
        above = {query[w] for stream in jobs[name].follows for w in writers[stream] if w in query}
        later = [
            one
            for one in above - {name}
            if states.get(one) is JobState.RUNNING
            and deployment.jobs[one].goal.generation > placed.goal.generation
        ]
        if later:
            number = deployment.generation + 1
            goal = replace(placed.goal, running=True, drains=(), generation=number)
            deployment = deployment.with_job(name, replace(placed, goal=goal, ended=False))
            told = {"state": "again", "after": later[0]}
            entries.append(Entry(EntryKind.EVENT, f"job {board.name}/{name}", told))
    return deployment, entries


def _states(board: Board, reports: Reports, *, failures: bool) -> dict[str, JobState]:
    """What each job does; of one that failed for good nothing comes any more, if that counts."""
    found: dict[str, JobState] = {}
    for name, job in board.files.queries(board.current).jobs.items():
        state = state_of(board, name, reports, failures=failures)
        if state is not None:
            found |= dict.fromkeys(_names(job), state)
    return found


def state_of(
    board: Board, query: str, reports: Reports, *, failures: bool = True
) -> JobState | None:
    """Return what a query does, as far as others must know; None where that is unknown."""
    placed = board.deployment.jobs.get(query)
    report = reports.get(placed.site) if placed is not None else None
    told = report.jobs.get(query) if report is not None else None
    if placed is None or told is None or told.generation != placed.goal.generation:
        return None
    if told.state is JobState.FAILED and not told.transient:
        return JobState.ENDED if failures else JobState.FAILED
    if placed.ended:
        over_now = told.state in (JobState.STOPPED, JobState.ENDED)
        return JobState.ENDED if over_now else JobState.RUNNING
    return told.state


def _names(job: Job) -> tuple[str, ...]:
    return (job.name, *(member.name for member in job.members))
