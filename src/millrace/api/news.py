"""From the coordinator's bell to who waits in the event loop: nobody holds a thread meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import anyio

from millrace.coordinator.rounds import Bell


@dataclass(slots=True)
class News:
    """Counts the rings of a bell inside the event loop. Everything but `_rung` is called there."""

    bell: Bell
    rings: int = 0
    #: Whether the server ends: who waits goes.
    closed: bool = False
    _loop: asyncio.AbstractEventLoop | None = None
    _event: asyncio.Event = field(default_factory=asyncio.Event)
    _told: bool = False
    _stop: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Begin to listen; again in another loop, it listens there."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._stop()
            self._loop, self._event, self._told = loop, asyncio.Event(), False
            self._stop = self.bell.listen(self._rung)

    def close(self) -> None:
        """Send home all who wait, and listen no more."""
        self._stop()
        self.closed = True
        self._wake()

    async def wait(self, heard: int, limit: float) -> int:
        """Return how often it rang: when that is more than was heard, or after a while."""
        self.start()
        if self.rings == heard and not self.closed and limit > 0:
            with anyio.move_on_after(limit):
                await self._event.wait()
        return self.rings

    def _rung(self) -> None:
        """Any thread calls this; many rings at once wake the loop once."""
        if not self._told and self._loop is not None:
            self._told = True
            with suppress(RuntimeError):  # the loop ended just now
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._told = False
        self.rings += 1
        event, self._event = self._event, asyncio.Event()
        event.set()
