"""Waits with limits, and what the programs have written."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from millrace.ports import Engine, JobState, JobStatus

SECONDS = 40.0


def until(condition: Callable[[], object], what: object = "") -> None:
    """Return when a condition holds."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, what() if callable(what) else what
        time.sleep(0.02)


def numbers(path: Path) -> list[int]:
    """Return what a program has written; a line that is on its way is left out."""
    if not path.exists():
        return []
    return [int(line) for line in path.read_text().rpartition("\n")[0].split()]


def until_more(path: Path, count: int = 20) -> list[int]:
    """Return all numbers when there are so many more than now."""
    known = len(numbers(path))
    until(lambda: len(numbers(path)) >= known + count, f"{path} does not grow")
    return numbers(path)


def until_state(engine: Engine, job: str, state: JobState) -> JobStatus:
    """Return a job's status when it has a state."""
    until(lambda: engine.status()[job].state is state, lambda: engine.status()[job])
    return engine.status()[job]
