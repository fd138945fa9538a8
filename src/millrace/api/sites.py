"""Sites: who serves each, and how it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path

from millrace.api.access import About, Who, asks, sees
from millrace.api.bodies import NAMED
from millrace.api.describing import refuses
from millrace.api.desk import AtDesk, Desk
from millrace.api.paging import Page, Paged
from millrace.coordinator.tokens import Identity, Role
from millrace.coordinator.views import SiteView
from millrace.errors import OperationFailed, nearest

router = APIRouter(prefix="/api/v1", tags=["sites"])


def _sites(desk: Desk, who: Identity) -> list[SiteView]:
    """Sites as a token sees them: of those for some pipelines, what is there of these."""
    found = desk.station.sites()
    if who.pipelines is None:
        return found
    seen = [
        replace(
            view,
            pipelines=tuple(name for name in view.pipelines if sees(who, name)),
            brokers={name: at for name, at in view.brokers.items() if sees(who, name)},
            errors=tuple(it for it in view.errors if sees(who, it.partition(":")[0])),
        )
        for view in found
    ]
    return [view for view in seen if view.pipelines]


@router.get("/sites", responses=refuses(), summary="List sites")
@asks(Role.VIEWER, About.SHARED)
def list_sites(desk: AtDesk, who: Who, part: Paged) -> Page[SiteView]:
    """All sites that pipelines name or agents joined."""
    return part.page(_sites(desk, who), lambda view: view.name)


@router.get("/sites/{site}", responses=refuses(404), summary="Look at a site")
@asks(Role.VIEWER, About.SHARED)
def get_site(
    site: Annotated[str, Path(pattern=NAMED, description="The site.", examples=["edge"])],
    desk: AtDesk,
    who: Who,
) -> SiteView:
    """Who serves a site, and whether it was heard of."""
    found = {view.name: view for view in _sites(desk, who)}
    if site not in found:
        near = nearest(site, found)
        way = f"did you mean {near}?" if near else "millrace get sites lists them"
        raise OperationFailed("no-site", f"there is no site {site}", way)
    return found[site]
