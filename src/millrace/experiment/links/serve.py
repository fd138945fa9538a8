"""The process that carries links: `python -m millrace.experiment.links.serve DESCRIPTOR WAY`.

It is told what to do by lines of JSON over the socket of that descriptor, answers each with one,
and ends with the socket.
"""

from __future__ import annotations

import asyncio
import json
import select
import selectors
import socket
import sys
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

from millrace.experiment.links.lane import Lane
from millrace.experiment.links.link import Link
from millrace.experiment.links.relay import Dial, Ends, Relay, dialled
from millrace.experiment.links.tunnel import ADDRESSES, Namespace, Tunnel

NAMESPACES = "namespaces"


@dataclass(slots=True)
class _Open:
    """A link that carries connections to some targets."""

    link: Link
    lanes: tuple[Lane, Lane]
    up: asyncio.Event
    tunnel: Tunnel | None = None
    #: Each with the end at which its target stands.
    relays: list[tuple[int, Relay]] = field(default_factory=list)
    #: Of namespaces: the second halves, from the far one to the targets.
    beyond: list[Relay] = field(default_factory=list)

    def carried(self) -> list[int]:
        """Return the bytes that were handed over at the second end and at the first."""
        total = [0, 0]
        for end, relay in self.relays:
            total[0] += relay.carried[1 - end]
            total[1] += relay.carried[end]
        return total


class Serving:
    """All links of this process."""

    def __init__(self, way: str) -> None:
        self._way = way
        self._links: dict[str, _Open] = {}

    async def answered(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked."""
        match asked["do"]:
            case "probe":
                if self._way == NAMESPACES:
                    Namespace(ADDRESSES[0]).close()
                return {}
            case "carry":
                link = Link.of(asked["link"])
                return {"port": await self._carry(link, asked["target"], asked["end"])}
            case "cut":
                self._links[asked["name"]].up.clear()
                return {}
            case "mend":
                self._links[asked["name"]].up.set()
                return {}
            case "carried":
                return {"bytes": self._links[asked["name"]].carried()}
            case other:
                raise ValueError(f"nobody knows how to {other}")

    async def _carry(self, link: Link, target: str, end: int) -> int:
        """Listen for a target at an end of a link; returns the port."""
        host, _, port = target.rpartition(":")

        def dial() -> Awaitable[Ends]:
            return dialled(host, int(port))

        opened = self._links.get(link.name) or self._opened(link)
        if opened.tunnel is None:
            there, back = opened.lanes if end else reversed(opened.lanes)
            relay = Relay(dial, there, back, opened.up)
        else:
            relay = await self._through(opened, opened.tunnel, dial, end)
        listener = _bound(socket.socket(), "127.0.0.1")
        await relay.listen(listener)
        opened.relays.append((end, relay))
        return int(listener.getsockname()[1])

    async def _through(self, opened: _Open, tunnel: Tunnel, dial: Dial, end: int) -> Relay:
        """Two relays without a delay of their own, at both ends of the packets' link."""
        beyond = Relay(dial, Lane(0.0), Lane(0.0), opened.up)
        inside = _bound(tunnel.ends[end].socket(), ADDRESSES[end])
        await beyond.listen(inside, buffered=None)
        opened.beyond.append(beyond)
        port = int(inside.getsockname()[1])
        return Relay(lambda: tunnel.dialled(end, port), Lane(0.0), Lane(0.0), opened.up)

    def _opened(self, link: Link) -> _Open:
        lanes = (Lane(link.latency, link.bandwidth), Lane(link.latency, link.bandwidth))
        opened = _Open(link, lanes, asyncio.Event())
        opened.up.set()
        if self._way == NAMESPACES:
            opened.tunnel = Tunnel(*lanes, link.loss, opened.up)
        self._links[link.name] = opened
        return opened

    async def close(self) -> None:
        """End all connections and let go of all links."""
        for opened in self._links.values():
            for relay in (*(relay for _, relay in opened.relays), *opened.beyond):
                await relay.close()
            if opened.tunnel is not None:
                opened.tunnel.close()


def _bound(sock: socket.socket, host: str) -> socket.socket:
    """A socket that listens at a free port."""
    sock.setblocking(False)  # noqa: FBT003 - the only parameter
    sock.bind((host, 0))
    return sock


async def _serve(descriptor: int, way: str) -> None:
    serving = Serving(way)
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor))
    while line := await reader.readline():
        try:
            answer = await serving.answered(json.loads(line))
        except (OSError, ValueError, KeyError) as error:
            answer = {"error": str(error) or type(error).__name__}
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()
    await serving.close()


class FineSelector(selectors.EpollSelector):
    """Wakes when it is time: epoll's own clock ticks in milliseconds, rounded up."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events, or for so many seconds."""
        if timeout is not None and timeout > 0:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(FineSelector())


def main() -> None:
    """Serve until the socket ends."""
    with asyncio.Runner(loop_factory=_loop) as runner:
        runner.run(_serve(int(sys.argv[1]), sys.argv[2]))


if __name__ == "__main__":
    main()
