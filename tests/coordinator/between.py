"""What lies between a coordinator and who asks it: connections that freeze, or are cut."""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

_LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Fault:
    """How far a connection gets: so many bytes pass there and back; None is all.

    Then it is reset, both ways; or `held`, so that nothing comes any more and nobody learns why.
    """

    there: int | None = None
    back: int | None = None
    held: bool = False


@dataclass
class Between:
    """A proxy at an address of its own. `cut`: nobody gets through. `freeze`: nobody learns why."""

    port: int
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    cut: bool = False
    #: How many connections were made, and the numbers of those that are frozen.
    made: int = 0
    frozen: set[int] = field(default_factory=set)
    #: What becomes of the next connections, one after another.
    faults: list[Fault] = field(default_factory=list)
    #: Bytes that went through, to either side.
    passed: int = 0
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where agents reach it."""
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def freeze(self) -> None:
        """Let nothing more through what is connected now, and don't end it either."""
        self.frozen = set(range(self.made + 1))

    def run(self) -> None:
        """Take connections until it is over."""
        self.listener.settimeout(_LOOK_SECONDS)
        while not self._over.is_set():
            with suppress(TimeoutError):
                ours, _ = self.listener.accept()
                self.made += 1
                fault = self.faults.pop(0) if self.faults else Fault()
                thread = threading.Thread(target=self._carry, args=(ours, self.made, fault))
                self._threads.append(thread)
                thread.start()

    def _carry(self, ours: socket.socket, number: int, fault: Fault) -> None:
        with ours, suppress(OSError), socket.create_connection(("127.0.0.1", self.port)) as theirs:
            other, left = {ours: theirs, theirs: ours}, {ours: fault.there, theirs: fault.back}
            while not self._over.is_set() and not self.cut:
                if number in self.frozen:
                    self._over.wait(_LOOK_SECONDS)
                    continue
                for ready in select.select([ours, theirs], [], [], _LOOK_SECONDS)[0]:
                    piece = ready.recv(65_536)
                    if not piece:
                        return
                    if number not in self.frozen:
                        most = left[ready]
                        other[ready].sendall(piece[:most])
                        self.passed += len(piece[:most])
                        if most is not None and most <= len(piece):
                            self._break(ours, theirs, fault)
                            return
                        left[ready] = None if most is None else most - len(piece)

    def _break(self, ours: socket.socket, theirs: socket.socket, fault: Fault) -> None:
        """Let nothing more through; who asked gives up, or both are told that it is over."""
        if fault.held:
            ours.settimeout(_LOOK_SECONDS)
            while not self._over.is_set():
                with suppress(TimeoutError):
                    if not ours.recv(65_536):
                        break
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def close(self) -> None:
        """End all."""
        self._over.set()
        for thread in self._threads:
            thread.join(10)
        self.listener.close()


@contextmanager
def between(port: int) -> Iterator[Between]:
    """Give a proxy to a port of this machine."""
    made = Between(port)
    taking = threading.Thread(target=made.run)
    taking.start()
    try:
        yield made
    finally:
        made._over.set()
        taking.join(10)
        made.close()
