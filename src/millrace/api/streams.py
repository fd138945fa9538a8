"""Streams of pipelines, and records of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from millrace.api.access import About, Who, asks
from millrace.api.bodies import NAMED
from millrace.api.describing import refuses
from millrace.api.desk import AtDesk, Desk
from millrace.api.paging import Page, Paged
from millrace.api.pipelines import PipelineName
from millrace.coordinator.showing import stream_views
from millrace.coordinator.tokens import Role
from millrace.coordinator.views import RecordView, StreamView
from millrace.errors import OperationFailed, nearest

router = APIRouter(prefix="/api/v1/pipelines/{pipeline}/streams", tags=["streams"])

StreamName = Annotated[str, Path(pattern=NAMED, description="The stream.", examples=["clean"])]


def _streams(desk: Desk, pipeline: str) -> list[StreamView]:
    coordinator = desk.station.coordinator
    return stream_views(coordinator.board(pipeline), coordinator.roster.reports(pipeline))


@router.get("", responses=refuses(404), summary="List streams")
@asks(Role.VIEWER, About.PIPELINE)
def list_streams(pipeline: PipelineName, desk: AtDesk, part: Paged) -> Page[StreamView]:
    """The streams of the file in force."""
    return part.page(_streams(desk, pipeline), lambda view: view.name)


@router.get("/{stream}", responses=refuses(404), summary="Look at a stream")
@asks(Role.VIEWER, About.PIPELINE)
def get_stream(pipeline: PipelineName, stream: StreamName, desk: AtDesk) -> StreamView:
    """Where a stream is, who writes and reads it."""
    found = {view.name: view for view in _streams(desk, pipeline)}
    if stream not in found:
        near = nearest(stream, found)
        way = f"did you mean {near}?" if near else f"millrace get streams {pipeline} lists them"
        raise OperationFailed("no-stream", f"there is no stream {stream} in {pipeline}", way)
    return found[stream]


@router.get("/{stream}/records", responses=refuses(404, 429, 504), summary="Read last records")
@asks(Role.OPERATOR, About.PIPELINE)
async def list_records(
    pipeline: PipelineName,
    stream: StreamName,
    desk: AtDesk,
    who: Who,
    most: Annotated[int, Query(ge=1, le=500, description="The most records.")] = 10,
) -> Page[RecordView]:
    """Return the last records of a stream: data of users, so it takes an operator."""
    with desk.waits.held(who.id):
        found = await desk.lanes.question(desk.station.records, pipeline, stream, most)
    return Page(items=found, next=None)
