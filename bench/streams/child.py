"""A process that is spoken to by lines, and surely ended."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from millrace.machine import end_session


class Talker:
    """A process in a session of its own; what it prints comes with the time of its arrival."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        listen_to_errors: bool = False,
    ) -> None:
        """Start it; its other channel (errors, or else what it prints) goes to the log."""
        self.log = log
        self.command = list(command)
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=out if listen_to_errors else subprocess.PIPE,
                stderr=subprocess.PIPE if listen_to_errors else out,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                text=True,
            )
        self.lines: list[tuple[float, str]] = []
        self._fresh: queue.Queue[tuple[float, str] | None] = queue.Queue()
        source = self.process.stderr if listen_to_errors else self.process.stdout
        threading.Thread(target=self._read, args=(source,), daemon=True).start()

    def _read(self, source: IO[str]) -> None:
        for line in source:
            seen = (time.monotonic(), line.rstrip())
            self.lines.append(seen)
            self._fresh.put(seen)
        self._fresh.put(None)

    def say(self, line: str) -> None:
        """Write a line to its input."""
        if self.process.stdin is None:
            raise RuntimeError(self.command)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self, limit: float) -> tuple[float, str]:
        """Return its next line and when it came; raises if there is none in time."""
        try:
            found = self._fresh.get(timeout=limit)
        except queue.Empty:
            found = None
        if found is None:
            message = f"{self.command[:4]} said nothing for {limit:.0f} s or ended; see {self.log}"
            raise TimeoutError(f"{message}\n{self.tail()}")
        return found

    def wait(self, limit: float) -> int:
        """Wait for its end."""
        return self.process.wait(limit)

    def tail(self) -> str:
        """Return the end of its log."""
        return self.log.read_text(errors="replace")[-3000:]

    def end(self, grace: float = 0.0) -> None:
        """Ask it to end, and after `grace` seconds end it and all of its session, by id."""
        if grace and self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(grace)
        end_session(self.process.pid)
        self.process.wait(10)


@contextlib.contextmanager
def talking(command: Sequence[str], log: Path) -> Iterator[Talker]:
    """Run a process for the time of a block."""
    talker = Talker(command, log)
    try:
        yield talker
    finally:
        talker.end()
