"""Processes that we start: each in a session of its own, ended by id, proven gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

#: A program's log begins anew at its next start beyond this, in bytes; one old log is kept.
LARGEST_LOG = 20_000_000


def leashed(command: Sequence[str]) -> list[str]:
    """Return the command such that it ends when this process does (see `leash`)."""
    return [sys.executable, "-m", "millrace.machine.leash", str(os.getpid()), *command]


@dataclass(slots=True)
class Child:
    """A process of ours; its session has its id, so that all it started can be found."""

    process: subprocess.Popen[bytes]

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        keep: tuple[int, ...] = (),
    ) -> Child:
        """Start a program with its output appended to `log`; `keep` are descriptors it gets."""
        log.parent.mkdir(parents=True, exist_ok=True)
        _keep_small(log)
        with log.open("ab") as out:
            started = _starter(os.getpid()).submit(
                subprocess.Popen,
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=None if environment is None else dict(environment),
                start_new_session=True,
                pass_fds=keep,
            )
            return cls(started.result())

    @property
    def pid(self) -> int:
        """Its id, and its session's."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def end(self, grace: float) -> None:
        """Ask it to end; after `grace` seconds end it and all of its session."""
        if self.alive and grace > 0:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(grace)
        end_session(self.pid)
        self.process.wait(10)


def _keep_small(log: Path) -> None:
    """Put a log that has grown large aside; the one before it goes."""
    if log.is_file() and log.stat().st_size > LARGEST_LOG:
        log.replace(log.with_name(f"{log.name}.1"))


@cache
def _starter(process: int) -> ThreadPoolExecutor:  # noqa: ARG001 - a fork needs one of its own
    """The thread that starts all children.

    Linux ends a leashed child with the thread that started it: this one lives as long as we do.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="starter")


def end_session(session: int, limit: float = 10.0) -> None:
    """End every process of a session and return when none is left.

    A process keeps its session's id whatever its parent does, so this proves a predecessor gone.
    """
    until = time.monotonic() + limit
    while members := session_members(session):
        if time.monotonic() > until:
            message = f"processes {members} of session {session} can't be ended"
            raise TimeoutError(message)
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def session_members(session: int) -> list[int]:
    """Return the ids of the processes of a session that still run."""
    found = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getsid(pid) == session and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
    return found


def started_at(pid: int) -> float:
    """Return when a process started, so that a used-again id is known; 0.0 if it is gone.

    In seconds since the machine started: the same, whoever asks, after the clock was set, too.
    """
    with suppress(OSError, psutil.Error):
        if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            return int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return 0.0
