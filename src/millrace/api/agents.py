"""Agents of sites: what they are told, what they tell, and the artifacts that they need."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import FileResponse

from millrace.api.access import About, Who, asks
from millrace.api.artifacts import STORED, Digest, stored
from millrace.api.bodies import AnyJson
from millrace.api.describing import Responses, refuses, takes_bytes
from millrace.api.desk import AtDesk
from millrace.api.goals import LOOK_SECONDS
from millrace.api.problems import Problem
from millrace.coordinator.tokens import Role
from millrace.wire import report_of

router = APIRouter(prefix="/api/v1/agent", tags=["agents"])

_GOAL: dict[str, Any] = {
    "type": "object",
    "required": ["sum", "goal"],
    "properties": {
        "sum": {"type": "string", "description": "The sum of the goal, for `known`."},
        "goal": {"type": "object", "description": "What the site shall be."},
    },
}
_REPORT: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["site"],
                    "properties": {
                        "site": {"type": "string"},
                        "generation": {"type": "integer"},
                        "pipelines": {"type": "object"},
                        "answers": {"type": "object"},
                    },
                },
                "example": {"site": "edge", "generation": 1, "pipelines": {}},
            }
        },
    }
}
_BYTES: Responses = {
    200: {
        "description": "The bytes.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    },
    206: {"description": "The bytes of the header Range."},
    416: {"description": "The header Range can't be had."},
}


@router.get(
    "/goal",
    response_class=Response,
    responses={
        200: {"description": "The goal.", "content": {"application/json": {"schema": _GOAL}}},
        204: {"description": "It is `known` all the time."},
        **refuses(429),
    },
    summary="Be told what the site shall be",
)
@asks(Role.VIEWER, About.SITE)
async def get_goal(
    desk: AtDesk,
    who: Who,
    known: Annotated[
        str, Query(max_length=64, description="The sum of what the agent was told last.")
    ] = "",
    wait: Annotated[float, Query(ge=0, le=60, description="Seconds to wait for another.")] = 25,
) -> Response:
    """Return the goal when it is another than `known`; 204 where that takes longer than `wait`."""
    until, site = time.monotonic() + wait, who.site or ""
    with desk.waits.held(who.id):
        while True:
            heard = desk.news.rings
            told = await desk.goals.of(site)
            if told.sum != known:
                desk.station.granted(site)
                return Response(told.body, media_type="application/json")
            left = until - time.monotonic()
            if left <= 0 or desk.news.closed:
                desk.station.granted(site)
                return Response(status_code=204)
            await desk.news.wait(heard, min(left, LOOK_SECONDS))


@router.post(
    "/report",
    status_code=204,
    responses=refuses(body=True),
    openapi_extra=_REPORT,
    summary="Tell what the site is",
)
@asks(Role.VIEWER, About.SITE)
def post_report(desk: AtDesk, who: Who, document: AnyJson) -> None:
    """Take what is there, whole; the site must be the token's."""
    report = report_of(document)
    if report.site != who.site:
        raise Problem(
            403, "other-site", "this token is for another site", "tell of the token's own site"
        )
    desk.station.heard(report)


@router.get(
    "/artifacts/{digest}",
    response_class=FileResponse,
    responses={**_BYTES, **refuses(404)},
    summary="Get an artifact",
)
@asks(Role.VIEWER, About.SITE)
def fetch_artifact(digest: Digest, desk: AtDesk) -> FileResponse:
    """Return its bytes."""
    path = desk.station.artifacts.path(digest)
    return FileResponse(path, media_type="application/octet-stream")


@router.put(
    "/artifacts/{digest}",
    status_code=201,
    response_class=Response,
    responses=STORED,
    openapi_extra=takes_bytes(),
    summary="Send an artifact of a site",
)
@asks(Role.VIEWER, About.SITE, audited=True)
async def send_artifact(digest: Digest, desk: AtDesk, request: Request) -> Response:
    """Keep a body under its digest, for other sites to get."""
    return await stored(desk, digest, request, desk.station.artifacts.largest)
