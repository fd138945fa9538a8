"""The API's own description."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from millrace.api.access import About, asks
from millrace.api.describing import refuses
from millrace.coordinator.tokens import Role

router = APIRouter(prefix="/api/v1", tags=["description"])


@router.get("/openapi.json", responses=refuses(), summary="Get this description")
@asks(Role.VIEWER, About.TOKEN)
async def get_openapi(request: Request) -> dict[str, Any]:
    """Return the OpenAPI document; any token may ask."""
    found: dict[str, Any] = request.app.openapi()
    return found
