"""Who changed what: the journal is told before the answer goes out."""

from __future__ import annotations

import logging
from typing import cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millrace.api.access import Asks
from millrace.api.desk import Desk
from millrace.coordinator.tokens import Identity
from millrace.errors import OperationFailed

_LOG = logging.getLogger(__name__)
#: The answers of routes that are audited, where they changed something.
_CHANGED = frozenset({201, 202, 204})


class Audit:
    """Writes a line for each request that changed something: who, what and how it was answered."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in _CHANGED:
                wanted = cast("Asks | None", state.get("asks"))
                if wanted is not None and wanted.audited:
                    await _write(scope, cast("Identity", state["who"]), message["status"])
            await send(message)

        await self.app(scope, receive, told)


async def _write(scope: Scope, who: Identity, status: int) -> None:
    """Tell the journal; a change that was made stays made where that can't be written down."""
    desk = cast("Desk", scope["app"].state.desk)
    try:
        await desk.lanes.look(
            desk.station.audited, who.name, scope["method"], scope["path"], status
        )
    except OperationFailed as failure:
        _LOG.warning("a change could not be written down: %s", failure)
