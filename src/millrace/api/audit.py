"""Who changed what, and to whom it was refused: the journal is told before the answer goes out."""

from __future__ import annotations

import logging
import time
from typing import cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millrace.api.access import Asks
from millrace.api.desk import Desk
from millrace.api.problems import bare
from millrace.coordinator.tokens import Identity
from millrace.errors import OperationFailed

_LOG = logging.getLogger(__name__)
#: The answers of routes that are audited, where they changed something, and where they would not.
_CHANGED = frozenset({201, 202, 204})
_REFUSED = frozenset({403, 409, 412, 422})
#: Of a path that was refused, so much is told: it may be any text.
_LONGEST = 200


class Audit:
    """Writes a line for each request that changed something: who, what and how it was answered.

    What is refused to a known token is told with the code of the refusal, within limits.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                wanted = cast("Asks | None", state.get("asks"))
                if wanted is not None and wanted.audited:
                    await _tell(scope, cast("Identity", state["who"]), message["status"])
            await send(message)

        await self.app(scope, receive, told)


async def _tell(scope: Scope, who: Identity, status: int) -> None:
    """Tell the journal of an answer, where that is one that it is told of."""
    desk = cast("Desk", scope["app"].state.desk)
    if status in _CHANGED:
        await _write(desk, who, f"{scope['method']} {scope['path']}", status, {})
    elif status in _REFUSED:
        left_out = desk.refusals.left_out(who.id, time.monotonic())
        if left_out is not None:
            more: dict[str, str | int] = {"code": str(scope["state"].get("refused", ""))}
            more |= {"left_out": left_out} if left_out else {}
            path = bare(scope["path"])[:_LONGEST]
            await _write(desk, who, f"{scope['method']} {path}", status, more)


async def _write(
    desk: Desk, who: Identity, request: str, status: int, more: dict[str, str | int]
) -> None:
    """Tell the journal; a change that was made stays made where that can't be written down."""
    try:
        await desk.lanes.look(lambda: desk.station.audited(who.name, request, status, **more))
    except OperationFailed as failure:
        _LOG.warning("a request could not be written down: %s", failure)
