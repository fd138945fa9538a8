"""Operations: changes on their way, and those that are over."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Path, Query

from millrace.api.access import About, Who, asks, sees
from millrace.api.describing import refuses
from millrace.api.desk import AtDesk
from millrace.api.paging import Page, Paged
from millrace.coordinator.tokens import Role
from millrace.coordinator.views import OperationView

router = APIRouter(prefix="/api/v1", tags=["operations"])


@router.get("/operations", responses=refuses(), summary="List operations")
@asks(Role.VIEWER, About.SHARED)
def list_operations(desk: AtDesk, who: Who, part: Paged) -> Page[OperationView]:
    """The changes that are known, the newest first, without their steps."""
    found = [view for view in desk.station.operations() if sees(who, view.pipeline)]
    return part.page(found, lambda view: view.id)


@router.get("/operations/{operation}", responses=refuses(404, 429), summary="Follow an operation")
@asks(Role.VIEWER, About.OPERATION)
async def get_operation(
    operation: Annotated[
        str, Path(max_length=220, description="The operation.", examples=["traffic.4"])
    ],
    desk: AtDesk,
    who: Who,
    wait: Annotated[
        float, Query(ge=0, le=30, description="Seconds to wait for it to be over.")
    ] = 0,
) -> OperationView:
    """Return how far it is; with `wait`, when it is over or the time is."""
    until = time.monotonic() + wait
    with desk.waits.held(who.id):
        while True:
            heard = desk.news.rings
            over = await desk.lanes.look(desk.station.is_over, operation)
            left = until - time.monotonic()
            if over or left <= 0 or desk.news.closed:
                return await desk.lanes.look(desk.station.operation, operation)
            await desk.news.wait(heard, left)
