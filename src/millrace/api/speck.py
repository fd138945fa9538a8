"""SpecK's own API: jobs of eight fields, and compositions; each change is an apply underneath.

The paper gives the paths of the Job Management API: POST /jobs, GET /jobs, GET /jobs/NAME and
DELETE /jobs/NAME. It names no path for the Composition Management API; here it is POST
/compositions, with the composition's file as the body. All of it is about the pipeline of the
query's `pipeline`, by default the one called "speck". SpecK knows no state that could be kept, so
jobs may lose theirs where a change asks for that.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Query, Response

from millrace.api.access import About, Who, asks
from millrace.api.bodies import NAMED, Brought, Raw, RawFile, SpeckBody, body, composition
from millrace.api.changes import Conditional, Conditions, changed
from millrace.api.describing import ETAG, LOCATION, refuses, takes, takes_file
from millrace.api.desk import AtDesk, Desk
from millrace.api.paging import Page, Paged
from millrace.coordinator.board import Board
from millrace.coordinator.service import Moved
from millrace.coordinator.tokens import Identity, Role
from millrace.coordinator.views import OperationView
from millrace.errors import OperationFailed
from millrace.model.pipeline import Pipeline
from millrace.spec.foreign import as_name
from millrace.spec.speck import NAME, speck_of

router = APIRouter(tags=["speck"])

#: Jobs by their eight fields.
Jobs = list[dict[str, str]]
#: How often an edit is made anew because somebody else was first.
_ATTEMPTS = 5

#: SpecK's clients send one job after another and know nothing of changes on their way: so long
#: such a change is waited for.
_QUIET_SECONDS = 20.0

ForPipeline = Annotated[
    str, Query(alias="pipeline", pattern=NAMED, description="The pipeline that has the jobs.")
]
_JOB = {
    "job_name": "A",
    "entry_class": "package.ExampleJob",
    "job_path": "/usr/src/app/jars/test-1.jar",
    "spe_address": "spark://172.16.39.7:7077",
    "source_broker": "kafka://172.16.39.7:9092",
    "sink_broker": "kafka://172.16.192.18:9092",
    "source_topic": "T-1",
    "sink_topic": "T-C-filter",
}
_CHANGE = {
    200: {"description": "There is nothing to do.", "headers": ETAG},
    202: {"description": "The change has begun.", "headers": {**LOCATION, **ETAG}},
    **refuses(404, 409, 412, 429, 507, body=True),
}


@dataclass(frozen=True, slots=True)
class SpeckView:
    """A job as SpecK describes it, and how it is."""

    job_name: str
    entry_class: str
    job_path: str
    spe_address: str
    source_broker: str
    sink_broker: str
    source_topic: str
    sink_topic: str
    state: str


def _described(desk: Desk, pipeline: str) -> Jobs:
    """The jobs of the file in force; none where there is no such pipeline."""
    board = desk.station.coordinator.boards.get(pipeline)
    jobs: Jobs = speck_of(board.file)["jobs"] if board is not None else []
    return jobs


def _views(desk: Desk, pipeline: str) -> list[SpeckView]:
    jobs = _described(desk, pipeline)
    states = {view.name: view.state for view in desk.station.jobs(pipeline)} if jobs else {}
    return [SpeckView(**job, state=states.get(job["job_name"], "unknown")) for job in jobs]


def _no_job(name: str, pipeline: str) -> OperationFailed:
    return OperationFailed(
        "no-job", f"there is no job {name} in {pipeline}", "GET /jobs lists them"
    )


@router.get("/jobs", responses=refuses(), summary="List SpecK's jobs")
@asks(Role.VIEWER, About.QUERY)
def list_speck_jobs(desk: AtDesk, part: Paged, pipeline: ForPipeline = NAME) -> Page[SpeckView]:
    """All jobs by the file in force, each with its state."""
    return part.page(_views(desk, pipeline), lambda view: view.job_name)


@router.get("/jobs/{job_name}", responses=refuses(404), summary="Look at a job of SpecK")
@asks(Role.VIEWER, About.QUERY)
def get_speck_job(
    job_name: Annotated[str, Path(max_length=200, examples=["A"])],
    desk: AtDesk,
    pipeline: ForPipeline = NAME,
) -> SpeckView:
    """A job's eight fields and its state."""
    found = {view.job_name: view for view in _views(desk, pipeline)}
    if job_name not in found:
        raise _no_job(job_name, pipeline)
    return found[job_name]


@router.post(
    "/jobs",
    status_code=202,
    responses=_CHANGE,
    openapi_extra=takes(SpeckBody, _JOB),
    summary="Deploy a job of SpecK",
)
@asks(Role.OPERATOR, About.QUERY, audited=True)
async def post_speck_job(
    desk: AtDesk,
    who: Who,
    conditions: Conditional,
    job: Annotated[SpeckBody, Depends(body(SpeckBody))],
    response: Response,
    pipeline: ForPipeline = NAME,
) -> OperationView:
    """Begin to run a job; one of the same name is replaced, and only what differs is changed."""
    fields = job.model_dump()

    def added(jobs: Jobs) -> Jobs:
        name = as_name(job.job_name)
        return [*(one for one in jobs if one["job_name"] != name), fields]

    asked = json.dumps(fields, sort_keys=True).encode()
    return await _edited(desk, who, conditions, response, _Edit(pipeline, added, asked))


@router.delete(
    "/jobs/{job_name}", status_code=202, responses=_CHANGE, summary="Remove a job of SpecK"
)
@asks(Role.OPERATOR, About.QUERY, audited=True)
async def delete_speck_job(
    job_name: Annotated[str, Path(max_length=200, examples=["A"])],
    desk: AtDesk,
    who: Who,
    conditions: Conditional,
    response: Response,
    pipeline: ForPipeline = NAME,
) -> OperationView:
    """Begin to stop a job and to remove what only it used."""

    def without(jobs: Jobs) -> Jobs:
        if not any(one["job_name"] == job_name for one in jobs):
            raise _no_job(job_name, pipeline)
        return [one for one in jobs if one["job_name"] != job_name]

    return await _edited(desk, who, conditions, response, _Edit(pipeline, without))


@router.post(
    "/compositions",
    status_code=202,
    responses=_CHANGE,
    openapi_extra=takes_file(SpeckBody, {"jobs": [_JOB]}, "jobs:\n- job_name: A\n"),
    summary="Deploy a composition of SpecK",
)
@asks(Role.OPERATOR, About.QUERY, audited=True)
def post_composition(
    desk: AtDesk,
    who: Who,
    conditions: Conditional,
    raw: RawFile,
    response: Response,
    pipeline: ForPipeline = NAME,
) -> OperationView:
    """Begin to run the jobs of a composition's file, and no others; what stays is not touched."""
    file = Brought(composition(raw, pipeline), state_loss=True)
    return changed(desk, who, file, conditions, response, raw.data)


@dataclass(frozen=True, slots=True)
class _Edit:
    """A change of the jobs of a pipeline: how, and what was sent to ask for it."""

    pipeline: str
    how: Callable[[Jobs], Jobs]
    asked: bytes = b""


async def _edited(
    desk: Desk, who: Identity, conditions: Conditions, response: Response, edit: _Edit
) -> OperationView:
    """Change the jobs of the file in force, as soon as no other change is on its way."""
    with desk.waits.held(who.id):
        await _quiet(desk, edit.pipeline)
    return await to_thread.run_sync(_applied, desk, who, conditions, response, edit)


async def _quiet(desk: Desk, pipeline: str) -> None:
    """Wait until a pipeline is not being changed, for a while."""
    until = time.monotonic() + _QUIET_SECONDS
    while True:
        heard = desk.news.rings
        boards = await desk.lanes.look(lambda: desk.station.coordinator.boards)
        left = until - time.monotonic()
        if pipeline not in boards or not boards[pipeline].busy or left <= 0 or desk.news.closed:
            return
        await desk.news.wait(heard, left)


def _applied(
    desk: Desk, who: Identity, conditions: Conditions, response: Response, edit: _Edit
) -> OperationView:
    """Apply the edited file for the revision that it was made of; who came between is followed."""
    coordinator, request = desk.station.coordinator, conditions.request(who, edit.asked)
    again = request is not None and coordinator.answered(request) is not None
    for attempt in range(_ATTEMPTS):
        board = coordinator.boards.get(edit.pipeline) or Board.empty(edit.pipeline)
        wanted = board.file if again else _file(edit, board.file)
        given = conditions.expected
        exact = replace(conditions, expected=board.newest if given is None else given)
        try:
            return changed(desk, who, Brought(wanted, state_loss=True), exact, response, edit.asked)
        except Moved:
            if given is not None or attempt + 1 == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt raises")


def _file(edit: _Edit, file: Pipeline) -> Pipeline:
    jobs = edit.how(speck_of(file)["jobs"])
    return composition(Raw(json.dumps({"jobs": jobs}).encode(), yaml=True), edit.pipeline)
