"""Pipelines: their files, what changing them would do, and what they were before."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response

from millrace.api.access import About, Who, asks, sees
from millrace.api.bodies import NAMED, Brought, FileBody, RawFile, RollbackBody, body, brought
from millrace.api.changes import Conditional, changed
from millrace.api.describing import ETAG, LOCATION, refuses, takes, takes_file
from millrace.api.desk import AtDesk
from millrace.api.paging import Page, Paged
from millrace.coordinator.showing import revision_views
from millrace.coordinator.tokens import Role
from millrace.coordinator.views import OperationView, PipelineView, PlanView, RevisionView
from millrace.model.pipeline import Pipeline
from millrace.wire import pipeline_document

router = APIRouter(prefix="/api/v1", tags=["pipelines"])

PipelineName = Annotated[
    str, Path(pattern=NAMED, description="The pipeline.", examples=["traffic"])
]
_DOCUMENT = {
    "pipeline": "traffic",
    "sites": {"edge": {"broker": {"kind": "kafka"}}},
    "streams": {"raw": {"site": "edge"}, "clean": {"site": "edge"}},
    "jobs": {"filter": {"site": "edge", "from": "raw", "to": "clean", "sql": "SELECT * FROM raw"}},
}
_YAML = "pipeline: traffic\nsites:\n  edge: {broker: {kind: kafka}}\n"
_FILE = takes_file(FileBody, {"document": _DOCUMENT, "note": "faster filter"}, _YAML)
_CHANGE = {
    200: {"description": "There is nothing to do: `total` is 0.", "headers": ETAG},
    202: {"description": "The change has begun.", "headers": {**LOCATION, **ETAG}},
    **refuses(404, 409, 412, 507, body=True),
}


@router.get("/pipelines", responses=refuses(), summary="List pipelines")
@asks(Role.VIEWER, About.SHARED)
def list_pipelines(desk: AtDesk, who: Who, part: Paged) -> Page[PipelineView]:
    """All pipelines by name; a token for some of them sees those."""
    found = [view for view in desk.station.pipelines() if sees(who, view.name)]
    return part.page(found, lambda view: view.name)


@router.get(
    "/pipelines/{pipeline}",
    responses={200: {"headers": ETAG}, **refuses(404)},
    summary="Look at a pipeline",
)
@asks(Role.VIEWER, About.PIPELINE)
def get_pipeline(pipeline: PipelineName, desk: AtDesk, response: Response) -> PipelineView:
    """How it is; its ETag is its newest revision, for If-Match."""
    view = desk.station.pipeline(pipeline)
    response.headers["ETag"] = f'"{view.revision}"'
    return view


@router.put(
    "/pipelines/{pipeline}",
    status_code=202,
    responses=_CHANGE,
    openapi_extra=_FILE,
    summary="Apply a file",
)
@asks(Role.OPERATOR, About.PIPELINE, audited=True)
def put_pipeline(
    pipeline: PipelineName,
    desk: AtDesk,
    who: Who,
    conditions: Conditional,
    raw: RawFile,
    response: Response,
) -> OperationView:
    """Begin to make a pipeline what a file says.

    The file is its native document in JSON, or a file of any known format as YAML. All that is
    wrong with it is told at once. What the operation then does is seen at its Location.
    """
    file = brought(raw, pipeline, desk.limits.depth)
    return changed(desk, who, file, conditions, response, raw.data)


@router.delete(
    "/pipelines/{pipeline}", status_code=202, responses=_CHANGE, summary="Remove a pipeline"
)
@asks(Role.OPERATOR, About.PIPELINE, audited=True)
def delete_pipeline(
    pipeline: PipelineName, desk: AtDesk, who: Who, conditions: Conditional, response: Response
) -> OperationView:
    """Begin to remove all of a pipeline: its jobs, its streams and what is in them."""
    desk.station.coordinator.board(pipeline)
    nothing = Brought(Pipeline(pipeline), state_loss=True)  # that is what is asked for
    return changed(desk, who, nothing, conditions, response)


@router.post(
    "/pipelines/{pipeline}/plan",
    responses=refuses(body=True),
    openapi_extra=_FILE,
    summary="See what a file would change",
)
@asks(Role.VIEWER, About.PIPELINE)
def plan_pipeline(pipeline: PipelineName, desk: AtDesk, raw: RawFile) -> PlanView:
    """Return the steps to what a file says; nothing is changed."""
    file = brought(raw, pipeline, desk.limits.depth)
    return desk.station.plan(file.wanted, file.lost)


@router.get("/pipelines/{pipeline}/file", responses=refuses(404), summary="Get the file")
@asks(Role.VIEWER, About.PIPELINE)
def get_file(
    pipeline: PipelineName,
    desk: AtDesk,
    response: Response,
    revision: Annotated[
        int | None, Query(ge=0, le=2**31, description="By default the one in force.")
    ] = None,
) -> dict[str, Any]:
    """Return the native document of a revision."""
    board = desk.station.coordinator.board(pipeline)
    number = board.current if revision is None else revision
    response.headers["ETag"] = f'"{number}"'
    if number == board.current:
        return pipeline_document(board.file)
    return pipeline_document(desk.station.revised(pipeline, number)[0])


@router.get("/pipelines/{pipeline}/revisions", responses=refuses(404), summary="List revisions")
@asks(Role.VIEWER, About.PIPELINE)
def list_revisions(pipeline: PipelineName, desk: AtDesk, part: Paged) -> Page[RevisionView]:
    """The versions of a pipeline's file that are kept, the newest first."""
    found = revision_views(desk.station.coordinator.board(pipeline))
    return part.page(found, lambda view: str(view.number))


@router.post(
    "/pipelines/{pipeline}/rollback",
    status_code=202,
    responses=_CHANGE,
    openapi_extra=takes(RollbackBody, {"revision": 3, "note": "as it was"}),
    summary="Go back to a revision",
)
@asks(Role.OPERATOR, About.PIPELINE, audited=True)
def rollback_pipeline(
    pipeline: PipelineName,
    desk: AtDesk,
    who: Who,
    conditions: Conditional,
    wanted: Annotated[RollbackBody, Depends(body(RollbackBody))],
    response: Response,
) -> OperationView:
    """Apply the file of an earlier revision anew, as a new one."""
    earlier, code = desk.station.revised(pipeline, wanted.revision)
    file = Brought(earlier, code, wanted.note, wanted.allow_state_loss)
    asked = wanted.model_dump_json().encode()
    return changed(desk, who, file, conditions, response, asked)
