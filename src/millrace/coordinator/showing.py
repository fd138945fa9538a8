"""Makes views of what a coordinator knows: pipelines, jobs, streams and changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import overload

from millrace.coordinator.board import Board
from millrace.coordinator.deployment import Placed
from millrace.coordinator.operation import Operation, OperationState
from millrace.coordinator.phases import Reports, phases_of
from millrace.coordinator.revision import Revision, operation_id
from millrace.coordinator.views import (
    FatesView,
    JobView,
    OperationView,
    PipelineView,
    PlanView,
    RevisionView,
    StepView,
    StreamView,
)
from millrace.model.job import Job
from millrace.model.step import Plan, Step
from millrace.plan.downtime import Estimates, foreseen
from millrace.plan.fuse import fusion
from millrace.ports import Fates, JobState
from millrace.ports.link import JobReport
from millrace.wire import step_document

_UNKNOWN = "unknown"


def pipeline_view(board: Board, reports: Reports) -> PipelineView:
    """Return a pipeline as a whole."""
    jobs = JobViews(board, reports)
    states = [job.state for job in jobs]
    return PipelineView(
        board.name,
        board.newest,
        board.current,
        _state(board, states),
        len(jobs),
        sum(state == JobState.RUNNING for state in states),
        tuple(sorted({job.site for job in jobs})),
        board.operation.id if board.operation is not None else None,
        board.file.description,
    )


def _state(board: Board, states: list[str]) -> str:
    operation = board.operation
    if operation is not None and operation.state is OperationState.STUCK:
        return "stuck"
    if board.busy:
        return "changing"
    if board.removed:
        return "removed"
    if JobState.FAILED in states:
        return "failing"
    if states and all(state == JobState.ENDED for state in states):
        return "ended"
    return "running" if states else "empty"


class JobViews(Sequence[JobView]):
    """All jobs that are there or shall be, in the order of their queries.

    A view is made when it is looked at: a page of many jobs takes no longer than one of few.
    """

    def __init__(self, board: Board, reports: Reports) -> None:
        self._board = board
        self._reports = reports
        self._jobs: list[tuple[str, Placed, Job]] = []
        for query, placed in board.deployment.jobs.items():
            whole = board.files.queries(placed.goal.revision).jobs[query]
            self._jobs += [(query, placed, job) for job in whole.members or (whole,)]

    def __len__(self) -> int:
        return len(self._jobs)

    @overload
    def __getitem__(self, place: int) -> JobView: ...
    @overload
    def __getitem__(self, place: slice) -> list[JobView]: ...
    def __getitem__(self, place: int | slice) -> JobView | list[JobView]:
        if isinstance(place, slice):
            return [self._view(*one) for one in self._jobs[place]]
        return self._view(*self._jobs[place])

    def _view(self, query: str, placed: Placed, job: Job) -> JobView:
        whole = self._board.files.queries(placed.goal.revision).jobs[query]
        told = _told_of(query, placed, self._reports)
        if told is not None and job.name in told.members:
            told = replace(told, progress=told.members[job.name])
        alone = query if whole.members else ""
        goal = placed.goal
        return _job(self._board.name, job, placed.site, goal.revision, goal.generation, told, alone)


def _told_of(query: str, placed: Placed, reports: Reports) -> JobReport | None:
    """What its site tells of a query as it was ordered last."""
    told = reports[placed.site].jobs.get(query) if placed.site in reports else None
    if told is None or told.generation != placed.goal.generation:
        return None
    over = placed.ended and told.state is JobState.STOPPED
    return replace(told, state=JobState.ENDED) if over else told


def _job(
    pipeline: str,
    job: Job,
    site: str,
    revision: int,
    generation: int,
    told: JobReport | None,
    query: str,
) -> JobView:
    known = told or JobReport(generation, JobState.STARTING)
    progress = known.progress
    return JobView(
        pipeline,
        job.name,
        site,
        known.state.value if told is not None else _UNKNOWN,
        job.kind,
        tuple(job.reads),
        tuple(job.writes),
        revision,
        generation,
        known.run,
        known.mode.value if known.mode is not None else None,
        progress.batch,
        round(progress.rows_per_second, 3),
        progress.at or None,
        dict(known.lag),
        _fates(progress.fates),
        known.error,
        known.hint,
        query,
        {name: dict(counts) for name, counts in known.received.items()},
    )


def _fates(fates: Fates) -> FatesView:
    return FatesView(
        fates.read,
        fates.used,
        fates.filtered,
        fates.malformed,
        fates.late,
        fates.dropped,
        fates.lost_sight,
        dict(fates.written),
    )


def stream_views(board: Board, reports: Reports) -> list[StreamView]:
    """Return the streams of the file in force."""
    file = board.file
    inside, writers, readers = fusion(file).inside, file.writers(), file.readers()
    there = {name for report in reports.values() for name, _ in report.streams}
    return [
        StreamView(
            board.name,
            name,
            stream.site or "",
            None if name in inside else stream.address,
            stream.partitions,
            stream.format.value,
            tuple(job.name for job in writers.get(name, ())),
            tuple(job.name for job in readers.get(name, ())),
            name in there or name in inside,
        )
        for name, stream in file.streams.items()
    ]


def operation_view(board: Board, operation: Operation, estimates: Estimates) -> OperationView:
    """Return a change that is on its way, or the last one."""
    revision = board.revisions.get(operation.wanted) or Revision(operation.wanted)
    steps = tuple(_step(step, operation, estimates) for step in operation.plan.steps)
    return OperationView(
        operation.id,
        operation.pipeline,
        operation.before,
        operation.wanted,
        operation.state.value,
        operation.state.over,
        sum(step.state == "done" for step in steps),
        len(steps),
        operation.plan.untouched,
        operation.reason,
        revision.by,
        revision.at,
        revision.ended,
        steps,
        operation.plan.notes,
    )


def past_operation_view(board: Board, revision: Revision) -> OperationView:
    """Return what is still known of a change before the last one: how it ended."""
    outcome = revision.outcome or OperationState.DONE.value
    return OperationView(
        operation_id(board.name, revision.number),
        board.name,
        revision.number - 1,
        revision.number,
        outcome,
        over=True,
        done=0,
        total=0,
        untouched=0,
        reason=revision.reason,
        by=revision.by,
        at=revision.at,
        ended=revision.ended,
    )


def plan_view(pipeline: str, revision: int, plan: Plan, estimates: Estimates) -> PlanView:
    """Return what a file would change."""
    steps = tuple(_step(step, None, estimates) for step in plan.steps)
    return PlanView(pipeline, revision, steps, plan.untouched, plan.notes)


def _step(step: Step, operation: Operation | None, estimates: Estimates) -> StepView:
    document = step_document(step)
    return StepView(
        step.id,
        step.action.value,
        step.kind.value,
        step.name,
        step.place,
        document["impact"],
        _progress(step, operation),
        tuple(document["reasons"]),
        step.keeps,
        step.after,
        step.stateful,
        step.drains,
        foreseen(step, estimates),
        operation.downtime.get(step.id) if operation is not None else None,
    )


def _progress(step: Step, operation: Operation | None) -> str:
    if operation is None:
        return "planned"
    if operation.is_done(step):
        return "done"
    begun = step.id in operation.since or operation.done.get(step.id, 0)
    return "ordered" if begun and phases_of(step) else "waiting"


def revision_views(board: Board) -> list[RevisionView]:
    """Return the versions of a pipeline's file, the newest first."""
    return [
        RevisionView(
            board.name,
            number,
            revision.at,
            revision.by,
            revision.note,
            operation_id(board.name, number),
            revision.outcome,
            revision.reason,
            revision.ended,
            number == board.current,
        )
        for number, revision in sorted(board.revisions.items(), reverse=True)
    ]


def estimates_of(documents: Mapping[str, Mapping[str, float]]) -> Estimates:
    """Return what steps took so far, of what the store has."""
    return Estimates.of(documents.get("steps", {}))
