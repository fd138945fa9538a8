"""Carries connections over two lanes: bytes in their order, with back-pressure and half-close."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Awaitable, Callable

from millrace.experiment.links.lane import Lane

#: Connections of a link take turns by pieces of this size.
PIECE = 16 * 1024
#: What the system keeps for each socket: more would hide from a sender how slow a link is.
BUFFER = 256 * 1024
#: A connection has at most so many bytes on their way in one direction.
MOST_UNDER_WAY = 8 * 1024 * 1024

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
#: Connects to a target.
Dial = Callable[[], Awaitable[Ends]]


class Relay:
    """A listener whose connections reach a target over a link."""

    def __init__(
        self,
        dial: Dial,
        there: Lane,
        back: Lane,
        up: asyncio.Event,
    ) -> None:
        """Dial the target for each connection; nothing passes while the link is not `up`."""
        self._dial = dial
        self._lanes = (there, back)
        self._up = up
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        #: Bytes that were handed over, there and back.
        self.carried = [0, 0]

    async def listen(self, sock: socket.socket, *, buffered: int | None = BUFFER) -> None:
        """Begin to accept connections on a socket that is bound.

        Without `buffered` the system lets its buffers grow with how far away the other side is.
        """
        if buffered is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffered)  # connections inherit it
        self._server = await asyncio.start_server(self._accepted, sock=sock, limit=PIECE)

    async def close(self) -> None:
        """Accept no more, and end the connections that there are."""
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        with contextlib.suppress(asyncio.CancelledError):
            await self._carry((reader, writer))

    async def _carry(self, near: Ends) -> None:
        """Carry one connection to its end; both sides are closed then."""
        there, back = self._lanes
        far: Ends | None = None
        try:
            # A handshake takes a round trip: its first half before the target hears of it, the
            # second before the first byte may follow.
            await self._pass(there.latency)
            far = await self._dial()
            await self._pass(back.latency)
            await _together(
                self._way(0, there, near[0], far[1]), self._way(1, back, far[0], near[1])
            )
        except OSError:
            for ends in (near, far):
                if ends is not None:
                    ends[1].transport.abort()
        finally:
            for ends in (near, far):
                if ends is not None:
                    ends[1].close()

    async def _pass(self, seconds: float) -> None:
        await self._up.wait()
        if seconds:
            await asyncio.sleep(seconds)

    async def _way(
        self, side: int, lane: Lane, source: asyncio.StreamReader, target: asyncio.StreamWriter
    ) -> None:
        """Carry one direction up to its end."""
        pipe = _Pipe()
        await _together(self._take(lane, source, pipe), self._give(side, pipe, target))

    async def _take(self, lane: Lane, source: asyncio.StreamReader, pipe: _Pipe) -> None:
        clock = asyncio.get_running_loop().time
        piece = b"."
        while piece:
            await pipe.room()
            while (busy := lane.wait(clock())) > 0:
                await asyncio.sleep(busy)
            piece = await source.read(PIECE)
            pipe.put(lane.enter(len(piece), clock()), piece)

    async def _give(self, side: int, pipe: _Pipe, target: asyncio.StreamWriter) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            due, piece = await pipe.get()
            if (early := due - clock()) > 0:
                await asyncio.sleep(early)
            await self._up.wait()
            if not piece:
                if target.can_write_eof():
                    target.write_eof()
                return
            target.write(piece)
            await target.drain()
            pipe.done(len(piece))
            self.carried[side] += len(piece)


class _Pipe:
    """What is under way in one direction of a connection, with a bound."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._held = 0
        self._changed = asyncio.Event()
        self._freed = asyncio.Event()

    def put(self, due: float, piece: bytes) -> None:
        self._pieces.append((due, piece))
        self._held += len(piece)
        self._changed.set()

    async def get(self) -> tuple[float, bytes]:
        while not self._pieces:
            self._changed.clear()
            await self._changed.wait()
        return self._pieces.popleft()

    async def room(self) -> None:
        while self._held >= MOST_UNDER_WAY:
            self._freed.clear()
            await self._freed.wait()

    def done(self, size: int) -> None:
        self._held -= size
        self._freed.set()


async def _together(*ways: Awaitable[None]) -> None:
    """Wait for all; the first that fails ends the others and is raised."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def dialled(host: str, port: int) -> Ends:
    """Connect to a target; what is written leaves at once."""
    reader, writer = await asyncio.open_connection(host, port, limit=PIECE)
    return tuned(reader, writer)


def tuned(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Ends:
    """Return a connection that holds little back."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    writer.transport.set_write_buffer_limits(high=PIECE)
    return reader, writer
