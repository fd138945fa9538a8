"""Carries links in a process of its own, by a proxy or by network namespaces."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Any

from millrace.errors import OperationFailed
from millrace.experiment.links.link import Link
from millrace.machine import Child, leashed

_ANSWER_SECONDS = 20.0
_GRACE_SECONDS = 3.0
_PROGRAM = "millrace.experiment.links.serve"


class Way(StrEnum):
    """How links are made.

    A proxy needs no rights and delays the bytes of connections; namespaces need root and delay
    packets, so that slow start, retransmission and loss are those of the system's own TCP.
    """

    PROXY = "proxy"
    NAMESPACES = "namespaces"


class Carrier:
    """Links that are open; any thread may call. `carrying` makes one."""

    def __init__(self, way: Way, log: Path) -> None:
        """Start the process; what it says goes to the log."""
        self.way = way
        self._log = log
        self._lock = Lock()
        self._line, theirs = socket.socketpair()
        self._line.settimeout(_ANSWER_SECONDS)
        self._lines = self._line.makefile("rb")
        command = [sys.executable, "-m", _PROGRAM, str(theirs.fileno()), way.value]
        with theirs:
            self.child = Child.start(leashed(command), log, keep=(theirs.fileno(),))

    def probe(self) -> None:
        """Raise where links of this way can't be made here."""
        self._ask({"do": "probe"})

    def carry(self, link: Link, target: str, at: str | None = None) -> str:
        """Return the address by which the target, host:port, is reached over a link.

        The target stands `at` one of the link's sites, by default the second. All targets of a
        link share its bandwidth. Nobody needs to listen at the target yet.
        """
        if link.loss and self.way is Way.PROXY:
            raise OperationFailed(
                "no-loss",
                f"link {link.name} loses packets, which a proxy can't do",
                "leave out its loss, or use --links namespaces as root",
            )
        end = link.sites.index(at or link.sites[1])
        answer = self._ask({"do": "carry", "link": link.document(), "target": target, "end": end})
        return f"127.0.0.1:{answer['port']}"

    def cut(self, link: str) -> None:
        """Let nothing pass, as if a cable were pulled: connections stay and wait."""
        self._ask({"do": "cut", "name": link})

    def mend(self, link: str) -> None:
        """Let all pass again; what waited comes first."""
        self._ask({"do": "mend", "name": link})

    def carried(self, link: str) -> tuple[int, int]:
        """Return how many bytes were handed over so far at the link's second site and its first."""
        second, first = self._ask({"do": "carried", "name": link})["bytes"]
        return second, first

    def close(self) -> None:
        """End all connections and the process."""
        with self._lock:
            self._lines.close()
            self._line.close()
            self.child.end(_GRACE_SECONDS)

    def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            try:
                self._line.sendall(json.dumps(asked).encode() + b"\n")
                line = self._lines.readline()
            except OSError:
                line = b""
        if not line:
            raise OperationFailed(
                "no-links", "the process that carries the links ended", f"see {self._log}"
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise OperationFailed("no-link", f"a link could not be made: {answer['error']}")
        return answer


@contextmanager
def carrying(way: Way, log: Path, say: Callable[[str], None] = lambda _: None) -> Iterator[Carrier]:
    """Have links for the time of a block; a proxy where namespaces can't be, which is said."""
    carrier = Carrier(way, log)
    try:
        carrier.probe()
    except OperationFailed as failure:
        carrier.close()
        if way is Way.PROXY:
            raise
        say(f"links by a proxy, as namespaces can't be had: {failure.message}")
        carrier = Carrier(Way.PROXY, log)
    except BaseException:
        carrier.close()
        raise
    try:
        yield carrier
    finally:
        carrier.close()
