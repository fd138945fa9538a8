"""What happens: the journal in pages, and as a stream of server-sent events."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Header, Query, Response
from starlette.types import Receive, Scope, Send

from millrace.api.access import About, Who, asks, sees
from millrace.api.describing import Responses, refuses
from millrace.api.desk import AtDesk, Desk
from millrace.api.journal import lines
from millrace.api.paging import Page, bad_cursor
from millrace.api.problems import Problem
from millrace.coordinator.tokens import Identity, Role
from millrace.coordinator.views import EventView

router = APIRouter(prefix="/api/v1", tags=["events"])

#: The greatest number that the journal could ever have.
_LAST = 2**62
#: So many lines are sent at once.
_BATCH = 200
#: Who rings may ring again at once: so long it is waited for.
_GATHER_SECONDS = 0.02
_LEAST_METRICS = 0.2


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


@router.get("/journal", responses=refuses(), summary="Read the journal")
@asks(Role.VIEWER, About.SHARED)
def list_journal(
    desk: AtDesk,
    who: Who,
    after: Annotated[int, Query(ge=0, le=_LAST, description="Lines behind this number.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="The most lines.")] = 100,
    cursor: Annotated[
        str | None, Query(max_length=30, description="`next` of the page before, for `after`.")
    ] = None,
) -> Page[EventView]:
    """Return lines of the journal, the oldest first."""
    begin = after
    if cursor is not None:
        found = _number(cursor)
        if found is None:
            raise bad_cursor()
        begin = found
    views, last = lines(desk.station, who, begin, limit)
    more = last > begin and bool(lines(desk.station, who, last, 1)[0])
    return Page(items=views, next=str(last) if more else None)


_STREAM: Responses = {
    200: {
        "description": "Events until the client goes: `journal` with the number as its id and an "
        "EventView as data; `metrics` without an id.",
        "content": {
            "text/event-stream": {
                "schema": {"type": "string"},
                "example": 'id: 7\nevent: journal\ndata: {"number": 7, "kind": "event"}\n\n',
            }
        },
    }
}


@router.get(
    "/events",
    response_class=Response,
    responses={**_STREAM, **refuses(429)},
    summary="Follow what happens",
)
@asks(Role.VIEWER, About.SHARED)
async def follow_events(
    desk: AtDesk,
    who: Who,
    after: Annotated[
        int | None,
        Query(ge=0, le=_LAST, description="Lines behind this number; by default, new ones."),
    ] = None,
    metrics: Annotated[
        float, Query(ge=0, le=3600, description="Seconds between numbers of jobs; 0 is never.")
    ] = 2,
    last_event_id: Annotated[
        str | None, Header(description="Where to go on after a break; it goes before `after`.")
    ] = None,
) -> Response:
    """Stream the journal, and numbers of jobs; a client that does not read is dropped."""
    if last_event_id:
        after = _number(last_event_id)
        if after is None:
            raise Problem(400, "bad-header", "Last-Event-ID is no number", "send an event's id")
    if after is None:
        after = await desk.lanes.look(desk.station.last_entry)
    return EventStream(desk, who, after, max(metrics, _LEAST_METRICS) if metrics else 0.0)


class _Slow(Exception):
    """The client does not read."""


class EventStream(Response):
    """An answer that goes on until the client or the server goes, or the token ends."""

    media_type = "text/event-stream"

    def __init__(self, desk: Desk, who: Identity, after: int, metrics: float) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._desk = desk
        self._who = who
        self._after = after
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the stream; who does not read for a while is cut off."""
        with self._desk.waits.held(self._who.id):
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_gone, receive, tasks.cancel_scope)
                    await self._serve(send)
                    tasks.cancel_scope.cancel()
            except* _Slow:
                scope.get("state", {}).get("abort", _nothing)()
                await anyio.sleep(0)

    async def _serve(self, send: Send) -> None:
        now = time.monotonic()
        spoke, measured = now, now - self._metrics
        await self._send(send, ": here\n\n")
        while self._lasts():
            heard = self._desk.news.rings
            text, more = await self._lines()
            now = time.monotonic()
            if self._metrics and now - measured >= self._metrics:
                text, measured = text + await self._numbers(), now
            if not text and now - spoke >= self._desk.limits.alive_seconds:
                text = ": here\n\n"
            if text:
                await self._send(send, text)
                spoke = now
            if more:
                continue
            due = spoke + self._desk.limits.alive_seconds
            due = min(due, measured + self._metrics) if self._metrics else due
            if await self._desk.news.wait(heard, due - time.monotonic()) != heard:
                await anyio.sleep(_GATHER_SECONDS)
        await self._send(send, "", more=False)

    def _lasts(self) -> bool:
        station = self._desk.station
        over = self._desk.news.closed or station.superseded
        return not over and station.keyring.holds(self._who.id)

    async def _lines(self) -> tuple[str, bool]:
        """What is new in the journal, and whether there may be more at once."""
        before = self._after
        views, self._after = await self._desk.lanes.look(
            lines, self._desk.station, self._who, before, _BATCH
        )
        text = "".join(_event("journal", asdict(view), view.number) for view in views)
        return text, self._after - before >= _BATCH

    async def _numbers(self) -> str:
        jobs = await self._desk.metrics.jobs()
        seen: Sequence[dict[str, Any]] = [it for it in jobs if sees(self._who, it["pipeline"])]
        now = self._desk.station.coordinator.clocks.wall()
        return _event("metrics", {"at": now, "jobs": seen})

    async def _send(self, send: Send, text: str, *, more: bool = True) -> None:
        try:
            with anyio.fail_after(self._desk.limits.slow_seconds):
                await send({"type": "http.response.body", "body": text.encode(), "more_body": more})
        except TimeoutError:
            raise _Slow from None


def _event(kind: str, document: dict[str, Any], number: int | None = None) -> str:
    identity = f"id: {number}\n" if number is not None else ""
    return f"{identity}event: {kind}\ndata: {json.dumps(document)}\n\n"


async def _gone(receive: Receive, scope: anyio.CancelScope) -> None:
    """End a stream when its client goes."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _nothing() -> None:
    """Nothing is there to be cut off."""
