"""Whether the store's file is whole, and copies of it for when it is not."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from millrace.errors import OperationFailed
from millrace.stores.sqlite.body import unpacked

#: So many copies are kept, the newest.
KEPT = 3
_TABLES = ("documents", "journal")


def check_whole(connection: sqlite3.Connection, file: Path) -> None:
    """Raise where the file is not what was written."""
    answers = [row[0] for row in connection.execute("PRAGMA quick_check")]
    if answers != ["ok"]:
        raise broken(file, answers[0])
    for table in _TABLES:
        for body, total in connection.execute(f"SELECT body, sum FROM {table}"):  # noqa: S608
            unpacked(body, total)


def broken(file: Path, what: str) -> OperationFailed:
    """Return what is told of a file that can't be trusted; it is never begun anew silently."""
    found = copies(file)
    if found:
        way = f"copy a backup back: cp {found[-1]} {file}"
    else:
        way = f"there is no backup; move {file} away to begin anew, and apply the pipelines again"
    return OperationFailed("state-broken", f"the state in {file} is damaged: {what}", way)


def copies(file: Path) -> list[Path]:
    """Return the copies of a file, oldest first."""
    names = sorted(file.parent.glob(f"{file.stem}.backup-*{file.suffix}"), key=_number)
    return [path for path in names if path.is_file()]


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def copy(connection: sqlite3.Connection, file: Path) -> Path:
    """Copy a file that is whole; older copies than the last few go. Others may do so meanwhile."""
    there = copies(file)
    number = _number(there[-1]) + 1 if there else 1
    target = file.with_name(f"{file.stem}.backup-{number}{file.suffix}")
    fresh = target.with_suffix(f".{os.getpid()}.new")
    try:
        with closing(sqlite3.connect(fresh)) as other:
            connection.backup(other)
        fresh.chmod(0o600)
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)
    for old in copies(file)[:-KEPT]:
        old.unlink(missing_ok=True)
    return target
