"""Artifacts: code and parcels by their SHA-256, streamed from and to the disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from anyio import from_thread
from fastapi import APIRouter, Path, Request, Response

from millrace.api.access import About, asks
from millrace.api.describing import Responses, refuses, takes_bytes
from millrace.api.desk import AtDesk, Desk
from millrace.api.limits import pieces
from millrace.coordinator.tokens import Role

router = APIRouter(prefix="/api/v1", tags=["artifacts"])

Digest = Annotated[
    str,
    Path(pattern="^[0-9a-f]{64}$", description="Its SHA-256, in hexadecimal.", examples=["0" * 64]),
]
STORED: Responses = {
    200: {"description": "It was there already."},
    201: {"description": "It is there now."},
    **refuses(408, 413, 507),
}


async def stored(desk: Desk, digest: str, request: Request, largest: int) -> Response:
    """Keep a body as an artifact; nothing of it is kept where it is another's, or too large."""
    artifacts = desk.station.artifacts
    known = not await desk.lanes.look(artifacts.missing, [digest])
    stream = pieces(request, min(largest, artifacts.largest), desk.limits.silent_seconds)

    async def following() -> bytes:
        return await anext(stream, b"")

    def coming() -> Iterator[bytes]:
        while piece := from_thread.run(following):
            yield piece

    await desk.lanes.upload(artifacts.put, coming(), digest, largest)
    return Response(status_code=200 if known else 201)


@router.get(
    "/artifacts/{digest}",
    status_code=204,
    responses={204: {"description": "It is there."}, **refuses(404)},
    summary="See whether an artifact is there",
)
@asks(Role.OPERATOR, About.SHARED)
def get_artifact(digest: Digest, desk: AtDesk) -> None:
    """Answer 204 if it is there, 404 if not; what is in it, only agents get."""
    desk.station.artifacts.path(digest)


@router.put(
    "/artifacts/{digest}",
    status_code=201,
    response_class=Response,
    responses=STORED,
    openapi_extra=takes_bytes(),
    summary="Send an artifact",
)
@asks(Role.OPERATOR, About.SHARED, audited=True)
async def put_artifact(digest: Digest, desk: AtDesk, request: Request) -> Response:
    """Keep a body under its digest; one that broke off is sent again as a whole."""
    return await stored(desk, digest, request, desk.limits.code)
