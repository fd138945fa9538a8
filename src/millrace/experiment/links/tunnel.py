"""A link of packets: two network namespaces joined by two TUN devices, so that TCP is Linux's own.

The namespaces have no names and belong to threads of this process: they go with it, however it
ends. Sockets stay in the namespace of the thread that made them, whoever uses them.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import random
import socket
import struct
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from millrace.experiment.links.lane import Lane
from millrace.experiment.links.relay import Ends, tuned

_CLONE_NEWNET = 0x40000000
_TUNSETIFF = 0x400454CA
_TUN_WITHOUT_HEADER = 0x1001
_SET_ADDRESS, _SET_MASK, _SET_MTU, _SET_FLAGS = 0x8916, 0x891C, 0x8922, 0x8914
_UP_AND_RUNNING = 0x41
_DEVICE = b"link0"
#: Each link has namespaces of its own, so all may use the same addresses.
ADDRESSES = ("10.78.0.1", "10.78.0.2")
_MASK = "255.255.255.0"
_MTU = 1500
_AT_ONCE = 64
#: What waits longer than this to enter a link is dropped, as routers do.
_MOST_BACKLOG = 0.1


class Namespace:
    """A network of its own with one TUN device in it."""

    def __init__(self, address: str) -> None:
        """Make it; raises OSError where that is not allowed."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="namespace")
        try:
            self.device: int = self._thread.submit(_made, address).result()
        except BaseException:
            self._thread.shutdown()
            raise

    def socket(self) -> socket.socket:
        """Return a socket that sees this network."""
        made = self._thread.submit(socket.socket, socket.AF_INET, socket.SOCK_STREAM).result()
        made.setblocking(False)  # noqa: FBT003 - the only parameter
        return made

    def close(self) -> None:
        """Let go of it: with its last socket it is gone."""
        os.close(self.device)
        self._thread.shutdown()


class Tunnel:
    """Moves packets between two namespaces, each later than it came."""

    def __init__(self, there: Lane, back: Lane, loss: float, up: asyncio.Event) -> None:
        """Make both namespaces and begin; raises OSError where that is not allowed."""
        first = Namespace(ADDRESSES[0])
        try:
            self.ends = (first, Namespace(ADDRESSES[1]))
        except BaseException:
            first.close()
            raise
        chance = random.Random(1)  # noqa: S311 - losses, no secrets
        loop = asyncio.get_running_loop()
        for (source, target), lane in ((self.ends, there), (self.ends[::-1], back)):
            way = _Way(source.device, target.device, lane, loss, chance, up)
            loop.add_reader(source.device, way.taken)

    async def dialled(self, end: int, port: int) -> Ends:
        """Connect to a listener at an end from the other one."""
        sock = self.ends[1 - end].socket()
        try:
            await asyncio.get_running_loop().sock_connect(sock, (ADDRESSES[end], port))
        except BaseException:
            sock.close()
            raise
        reader, writer = await asyncio.open_connection(sock=sock)
        return tuned(reader, writer)

    def close(self) -> None:
        """Let go of both namespaces."""
        for one in self.ends:
            asyncio.get_running_loop().remove_reader(one.device)
            one.close()


class _Way:
    """One direction: packets wait until they are due."""

    def __init__(
        self,
        source: int,
        target: int,
        lane: Lane,
        loss: float,
        chance: random.Random,
        up: asyncio.Event,
    ) -> None:
        self._source, self._target, self._lane = source, target, lane
        self._loss, self._chance, self._up = loss, chance, up
        self._packets: deque[tuple[float, bytes]] = deque()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def taken(self) -> None:
        """Take what there is; one that is lost, or too many, is gone: TCP sends it again."""
        for _ in range(_AT_ONCE):
            try:
                packet = os.read(self._source, 65536)
            except (BlockingIOError, OSError):
                break
            now = self._loop.time()
            lost = self._loss and self._chance.random() < self._loss
            if lost or not self._up.is_set() or self._lane.backlog(now) > _MOST_BACKLOG:
                continue
            self._packets.append((self._lane.enter(len(packet), now), packet))
        self._given()

    def _given(self) -> None:
        """Hand over what is due, and come again for the next."""
        now = self._loop.time()
        while self._packets and self._packets[0][0] <= now:
            try:
                os.write(self._target, self._packets.popleft()[1])
            except OSError:  # the other side is full or gone
                continue
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._packets:
            self._timer = self._loop.call_at(self._packets[0][0], self._given)


def _made(address: str) -> int:
    """Give this thread a network of its own, with a device; return the device."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"no network namespace: {os.strerror(number)}")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    try:
        wanted = struct.pack("16sH22x", _DEVICE, _TUN_WITHOUT_HEADER)
        fcntl.ioctl(device, _TUNSETIFF, wanted)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, _SET_ADDRESS, _address(address))
            fcntl.ioctl(control, _SET_MASK, _address(_MASK))
            fcntl.ioctl(control, _SET_MTU, struct.pack("16si20x", _DEVICE, _MTU))
            fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sH22x", _DEVICE, _UP_AND_RUNNING))
    except BaseException:
        os.close(device)
        raise
    return device


def _address(text: str) -> bytes:
    return struct.pack("16sHH4s16x", _DEVICE, socket.AF_INET, 0, socket.inet_aton(text))
