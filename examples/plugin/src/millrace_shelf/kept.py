"""What a job keeps in its folder: how far it is, and a lock that keeps others off."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, Final

from millrace.errors import OperationFailed
from millrace.ports import Fates, Progress

from millrace_shelf.files import write_whole

#: A `Progress` as JSON; Millrace reads it too, of jobs that don't run.
_LEDGER: Final = "ledger.json"
#: Written by Millrace before a job's first start, where it goes on from what another one has read.
_START: Final = "start.json"

Positions = Mapping[str, Mapping[int, int]]


def read_progress(place: Path) -> Progress | None:
    """Return how far a folder's job is; None where it has not begun."""
    try:
        found = json.loads((place / _LEDGER).read_text("utf-8"))
    except FileNotFoundError:
        return None
    fates = Fates(**found["fates"])
    return Progress(**{**found, "fates": fates, "positions": _positions(found["positions"])})


def write_progress(place: Path, progress: Progress) -> None:
    """Keep how far a job is; returning promises that it is on the disk."""
    write_whole(place / _LEDGER, json.dumps(asdict(progress)))


def read_start(place: Path) -> Positions:
    """Return where a job begins that has no progress, by the streams' addresses."""
    try:
        return _positions(json.loads((place / _START).read_text("utf-8")))
    except FileNotFoundError:
        return {}


def taken(place: Path, job: str) -> IO[str]:
    """Take a folder, for as long as the file that this returns is open."""
    place.mkdir(parents=True, exist_ok=True)
    lock = (place / "lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise OperationFailed(
            "taken",
            f"another process runs job {job} in {place}",
            "stop it there first",
            transient=True,
        ) from None
    return lock


def _positions(document: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    """JSON's keys are texts."""
    return {name: {int(n): at for n, at in parts.items()} for name, parts in document.items()}
