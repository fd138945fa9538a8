"""The application: all routes, guarded by one dependency, with every error as a problem."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from millrace import __version__
from millrace.api import (
    agents,
    artifacts,
    description,
    events,
    jobs,
    operations,
    pipelines,
    sites,
    speck,
    streams,
    tokens,
)
from millrace.api.access import asked, guarded
from millrace.api.audit import Audit
from millrace.api.describing import PROBLEM, tell_links
from millrace.api.desk import Desk
from millrace.api.limits import Limits
from millrace.api.problems import tell_problems
from millrace.coordinator.station import Station

_RESOURCES = (
    pipelines, jobs, streams, sites, operations, events, tokens, artifacts, agents, speck,
    description,
)  # fmt: skip
_SUMMARY = "Pipelines, jobs, streams and sites of a coordinator."
_TEXT = """\
Every request carries a token. Errors are `application/problem+json` with a `code` for programs and
a `hint` for people. A change answers 202 with an operation, which is followed at its Location."""


class Api(FastAPI):
    """An application whose description tells what each route asks of a token."""

    def openapi(self) -> dict[str, Any]:
        """Return the description; the same for every station."""
        if self.openapi_schema is None:
            found = super().openapi()
            schemas = found["components"]["schemas"]
            for unused in ("HTTPValidationError", "ValidationError"):
                schemas.pop(unused, None)
            schemas["Problem"] = PROBLEM
            for route in iter_route_contexts(self.routes):
                _tell_role(found, route)
            tell_links(found)
        return self.openapi_schema or {}


def _tell_role(found: dict[str, Any], route: Any) -> None:
    wanted = asked(route.endpoint)
    for method in route.methods or ():
        operation = found["paths"][route.path_format][method.lower()]
        operation["x-millrace-role"] = wanted.text if wanted is not None else "nobody"


def routes() -> Api:
    """Return the application without anything behind it: enough for its description."""
    app = Api(
        title="Millrace",
        summary=_SUMMARY,
        description=_TEXT,
        version=__version__,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(guarded)],
        generate_unique_id_function=_name,
        lifespan=_lifespan,
    )
    for resource in _RESOURCES:
        app.include_router(resource.router)
    app.add_middleware(Audit)
    tell_problems(app)
    return app


def application(station: Station, limits: Limits | None = None) -> FastAPI:
    """Return the API of a station."""
    app = routes()
    app.state.desk = Desk.of(station, limits or Limits())
    return app


def _name(route: APIRoute) -> str:
    return route.name


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    desk = cast("Desk", app.state.desk)
    desk.news.start()
    try:
        yield
    finally:
        desk.news.close()
