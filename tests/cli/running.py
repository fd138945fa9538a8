"""`millrace run` as a process of its own, for tests that press Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

#: How long a start may take on a busy machine, in seconds.
UP = 150.0


@dataclass(slots=True)
class Running:
    """The process, and what it has said so far on stderr."""

    process: subprocess.Popen[bytes]
    home: Path
    said_file: Path

    @property
    def said(self) -> str:
        """What it told people."""
        return self.said_file.read_text("utf-8", "replace")

    def await_said(self, text: str, limit: float = UP) -> None:
        """Wait until it says something; fails if it ends before."""
        until = time.monotonic() + limit
        while text not in self.said:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < until, self.said
            time.sleep(0.05)

    def children(self) -> list[psutil.Process]:
        """Every process that it started and that still runs."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def interrupt(self, limit: float) -> tuple[int, float]:
        """Press Ctrl-C; returns the exit code and how long the stop took."""
        begun = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(limit), time.monotonic() - begun


@contextmanager
def running(file: Path, home: Path, *options: str, told: str = "home.said") -> Iterator[Running]:
    """Run a pipeline; ended for sure afterwards, with all it started. `told` names its log."""
    said = home.with_name(told)
    command = [
        sys.executable,
        "-m",
        "millrace.cli",
        "run",
        str(file),
        "--home",
        str(home),
        *options,
    ]
    with said.open("wb") as out, said.with_suffix(".out").open("wb") as data:
        process = subprocess.Popen(
            command, stdout=data, stderr=out, start_new_session=True,
            env={**os.environ, "NO_COLOR": "1"},
        )  # fmt: skip
    found = Running(process, home, said)
    try:
        yield found
    finally:
        left = found.children() if process.poll() is None else []
        if process.poll() is None:
            process.kill()
        for child in left:
            child.kill()
        process.wait(30)


def drivers(home: Path) -> list[psutil.Process]:
    """The drivers that live and keep their things in a home, whoever started them."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if "millrace.agent.driver" in line and any(str(home) in part for part in line):
            found.append(process)
    return found


def until(condition: Callable[[], bool], limit: float, what: str) -> None:
    """Wait for a condition; fails after the limit."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)
