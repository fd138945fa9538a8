"""Jobs of pipelines, and what their engines tell."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from millrace.api.access import About, Who, asks
from millrace.api.bodies import NAMED
from millrace.api.describing import refuses
from millrace.api.desk import AtDesk
from millrace.api.paging import Page, Paged
from millrace.api.pipelines import PipelineName
from millrace.coordinator.tokens import Role
from millrace.coordinator.views import JobView, LogView

router = APIRouter(prefix="/api/v1/pipelines/{pipeline}/jobs", tags=["jobs"])

JobName = Annotated[str, Path(pattern=NAMED, description="The job.", examples=["filter"])]
#: Beyond this no log has a byte.
_FAR = 2**62


@router.get("", responses=refuses(404), summary="List jobs")
@asks(Role.VIEWER, About.PIPELINE)
def list_jobs(pipeline: PipelineName, desk: AtDesk, part: Paged) -> Page[JobView]:
    """The jobs of a pipeline, as their sites last told of them."""
    return part.page(desk.station.jobs(pipeline), lambda view: view.name)


@router.get("/{job}", responses=refuses(404), summary="Look at a job")
@asks(Role.VIEWER, About.PIPELINE)
def get_job(pipeline: PipelineName, job: JobName, desk: AtDesk) -> JobView:
    """A job, as its site last told of it."""
    return desk.station.job(pipeline, job)


@router.get("/{job}/log", responses=refuses(404, 429, 504), summary="Read a job's log")
@asks(Role.VIEWER, About.PIPELINE)
async def get_log(
    pipeline: PipelineName,
    job: JobName,
    desk: AtDesk,
    who: Who,
    after: Annotated[
        int, Query(ge=-1, le=_FAR, description="`next` of the piece before; -1 is the end.")
    ] = -1,
    most: Annotated[int, Query(ge=1, le=65536, description="The most bytes.")] = 65536,
) -> LogView:
    """Return a piece of what the job's engine tells; its site is asked."""
    with desk.waits.held(who.id):
        return await desk.lanes.question(desk.station.log, pipeline, job, after, most)
