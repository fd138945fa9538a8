"""Who asks, and whether they may: what no route declares is allowed to nobody.

Every route says with `asks` what a token must be. One dependency of the whole application looks at
that before anything of a request is read; a route that says nothing answers 403.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from millrace.api.desk import Desk
from millrace.api.problems import Problem
from millrace.coordinator.revision import operation_parts
from millrace.coordinator.tenure import Superseded
from millrace.coordinator.tokens import Identity, Role
from millrace.spec.speck import NAME as SPECK

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class About(StrEnum):
    """What a route is about, which says which tokens may use it."""

    #: The pipeline of its path, of its query, or of the operation of its path.
    PIPELINE = "pipeline"
    QUERY = "query"
    OPERATION = "operation"
    #: Things of several pipelines: it shows each token its own.
    SHARED = "shared"
    #: All pipelines: tokens for some of them may not.
    ALL = "all"
    #: The site of a token of an agent; no other token may.
    SITE = "site"
    #: The token itself, whatever it is for.
    TOKEN = "token"  # noqa: S105 - a word, no secret


@dataclass(frozen=True, slots=True)
class Asks:
    """What a route asks of a token, and whether the journal tells of what it did or refused."""

    role: Role
    about: About
    audited: bool = False

    @property
    def text(self) -> str:
        """The word for it in the API's description."""
        return {About.SITE: "site", About.TOKEN: "any"}.get(self.about, self.role.text)


def asks(role: Role, about: About, *, audited: bool = False) -> Callable[[Endpoint], Endpoint]:
    """Declare what a route asks."""

    def declared(endpoint: Endpoint) -> Endpoint:
        endpoint.__dict__["asks"] = Asks(role, about, audited)
        return endpoint

    return declared


def asked(endpoint: object) -> Asks | None:
    """Return what a route asks; None for one that does not say."""
    found = getattr(endpoint, "asks", None)
    return found if isinstance(found, Asks) else None


_BEARER = HTTPBearer(
    auto_error=False,
    scheme_name="bearer",
    description="A token of `millrace token create`, or the first one of `millrace up`.",
)


async def guarded(
    request: Request,
    shown: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
) -> None:
    """Let a request through, or raise: 401 for no token that holds, 403 for one that may not."""
    station = cast("Desk", request.app.state.desk).station
    who = station.keyring.identify(shown.credentials) if shown is not None else None
    if who is None:
        raise Problem(
            401,
            "no-access",
            "no token came that holds" if shown is None else "this token does not hold",
            "send one: Authorization: Bearer mr_...; millrace token create makes one",
            headers={"WWW-Authenticate": "Bearer"},
        )
    wanted = asked(getattr(request.scope.get("route"), "endpoint", None))
    request.state.who, request.state.asks = who, wanted  # also for who is refused: see `audit`
    if wanted is None or not _may(wanted, who, request):
        raise refused(wanted)
    if station.superseded:
        raise Superseded


def refused(wanted: Asks | None) -> Problem:
    """Return the same words for all that a token may not: they tell nothing of what is there."""
    needed = wanted.text if wanted is not None else "no"
    hint = {
        "site": "only the agent of a site asks this, with the token that was made for the site",
        "no": "this can't be asked",
    }.get(needed, f"it takes a token with the role {needed} that is for it")
    return Problem(403, "not-allowed", "this token may not do that", hint)


def _may(wanted: Asks, who: Identity, request: Request) -> bool:
    if wanted.about is About.TOKEN:
        return True
    if wanted.about is About.SITE or who.site is not None:
        return wanted.about is About.SITE and who.site is not None
    if wanted.about is About.SHARED:
        return who.role >= wanted.role
    return who.may(wanted.role, _pipeline(wanted.about, request))


def _pipeline(about: About, request: Request) -> str | None:
    """The pipeline that a request is about; None for all of them, and for one that is none."""
    if about is About.PIPELINE:
        return str(request.path_params["pipeline"])
    if about is About.QUERY:
        given = request.query_params.getlist("pipeline")
        return given[-1] if given else SPECK
    if about is About.OPERATION:
        parts = operation_parts(str(request.path_params["operation"]))
        return parts[0] if parts is not None else None
    return None


async def _who(request: Request) -> Identity:
    return cast("Identity", request.state.who)


#: Who asks, for routes that want to know.
Who = Annotated[Identity, Depends(_who)]


def sees(who: Identity, pipeline: str) -> bool:
    """Whether a token is for a pipeline."""
    return who.pipelines is None or pipeline in who.pipelines
