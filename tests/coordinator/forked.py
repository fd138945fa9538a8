"""Programs as processes of their own that start at once: what they import is imported once.

A process that has imported everything makes copies of itself, each of which becomes a program.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.context import ForkServerProcess
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from typing import Any

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "tests.coordinator.faked",
        "tests.coordinator.played",
        "millrace.agent.http_link",
        "millrace.agent.joined",
        "millrace.api.serve",
        "millrace.measure.logs",
        "httpx",
    ]
)


#: How a process ended is told once, to the first who looks: of two at once one learns nothing.
#: Also who starts another looks at all that were started.
_looking = threading.Lock()


@dataclass(slots=True)
class Forked:
    """A process, and what it has said so far. Any thread may call."""

    process: ForkServerProcess
    said_file: Path

    @property
    def pid(self) -> int:
        """Its number."""
        assert self.process.pid is not None
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs, or stands still."""
        with _looking:
            return self.process.is_alive()

    @property
    def said(self) -> str:
        """What it told people."""
        return self.said_file.read_text("utf-8", "replace")

    def await_said(self, text: str, limit: float = 30.0) -> None:
        """Wait until it says something; fails if it ends before."""
        until = time.monotonic() + limit
        while text not in self.said:
            assert self.alive, self.said
            assert time.monotonic() < until, self.said
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def wait(self, limit: float = 30.0) -> int:
        """Return how it ended; fails where it does not."""
        connection.wait([self.process.sentinel], limit)
        with _looking:
            code = self.process.exitcode
        assert code is not None, self.said
        return code

    def kill(self) -> None:
        """End it as by kill -9, if it runs."""
        with _looking:
            if self.process.is_alive():
                self.process.kill()
        self.wait(10)


def forked(
    program: Callable[[], object], arguments: list[str], said: Path, **environment: str
) -> Forked:
    """Start a program with arguments; what it says goes to a file."""
    said.touch()
    given = (program, arguments, str(said), environment)
    process = _CONTEXT.Process(target=_become, args=given)
    with _looking:
        _ensure_server()
        process.start()
    return Forked(process, said)


def _ensure_server() -> None:
    """Start the process that makes copies, unmeasured: what copies ran is told by none of them."""
    measured = os.environ.pop("COVERAGE_PROCESS_CONFIG", None)
    ensure_running()
    if measured is not None:
        os.environ["COVERAGE_PROCESS_CONFIG"] = measured


def _become(program: Any, arguments: list[str], said: str, environment: dict[str, str]) -> None:
    out = os.open(said, os.O_WRONLY | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(out, descriptor)
    os.environ.update(environment)
    sys.argv = ["millrace", *arguments]
    program()
