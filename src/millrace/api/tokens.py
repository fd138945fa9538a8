"""Tokens: made, listed, taken back; and who a token is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path

from millrace.api.access import About, Who, asks
from millrace.api.bodies import TokenBody, body
from millrace.api.describing import refuses, takes
from millrace.api.desk import AtDesk
from millrace.api.paging import Page, Paged
from millrace.coordinator.keyring import Wanted
from millrace.coordinator.tokens import Role
from millrace.coordinator.views import TokenView

router = APIRouter(prefix="/api/v1", tags=["tokens"])


@dataclass(frozen=True, slots=True)
class WhoView:
    """What a token is, without its secret."""

    id: str
    name: str
    role: str
    pipelines: tuple[str, ...] | None
    site: str | None


@dataclass(frozen=True, slots=True)
class IssuedView:
    """A new token with its text, which is shown once."""

    token: str
    id: str
    name: str
    role: str
    pipelines: tuple[str, ...] | None
    site: str | None
    expires: float | None
    revoked: bool


def _view(identity: str, document: Mapping[str, Any]) -> TokenView:
    pipelines = document["pipelines"]
    return TokenView(
        identity,
        document["name"],
        document["role"],
        tuple(pipelines) if pipelines is not None else None,
        document["site"],
        document["expires"],
        document["revoked"],
    )


@router.get("/whoami", responses=refuses(), summary="See what the token is")
@asks(Role.VIEWER, About.TOKEN)
async def whoami(who: Who) -> WhoView:
    """Return who asks; any token may."""
    pipelines = tuple(sorted(who.pipelines)) if who.pipelines is not None else None
    return WhoView(who.id, who.name, who.role.text, pipelines, who.site)


@router.get("/tokens", responses=refuses(), summary="List tokens")
@asks(Role.ADMIN, About.ALL)
def list_tokens(desk: AtDesk, part: Paged) -> Page[TokenView]:
    """All tokens by their ids, without their secrets; those that were taken back, too."""
    known = desk.station.keyring.tokens
    return part.page([_view(it, known[it]) for it in sorted(known)], lambda view: view.id)


@router.post(
    "/tokens",
    status_code=201,
    responses=refuses(409, 507, body=True),
    openapi_extra=takes(TokenBody, {"name": "console", "role": "viewer", "expires_seconds": 86400}),
    summary="Make a token",
)
@asks(Role.ADMIN, About.ALL, audited=True)
def create_token(
    desk: AtDesk, who: Who, given: Annotated[TokenBody, Depends(body(TokenBody))]
) -> IssuedView:
    """Make a token; its text is in this answer and nowhere else."""
    now = desk.station.keyring.clock()
    wanted = Wanted(
        given.name,
        Role.of(given.role),
        frozenset(given.pipelines) if given.pipelines is not None else None,
        given.site,
        now + given.expires_seconds if given.expires_seconds is not None else None,
    )
    made = desk.station.issue(wanted, who.name)
    desk.station.bell.ring()
    return IssuedView(made.text, **asdict(_view(made.id, made.document)))


@router.delete(
    "/tokens/{token}", status_code=204, responses=refuses(404, 507), summary="Take a token back"
)
@asks(Role.ADMIN, About.ALL, audited=True)
def revoke_token(
    token: Annotated[str, Path(max_length=200, description="Its id.", examples=["k3j9x0ab"])],
    desk: AtDesk,
    who: Who,
) -> None:
    """Make a token hold no more."""
    desk.station.keyring.revoke(token, who.name)
    desk.station.bell.ring()
