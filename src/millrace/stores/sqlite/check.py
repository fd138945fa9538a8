"""Whether the store's file is whole, and copies of it for when it is not."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from millrace.errors import OperationFailed
from millrace.stores.sqlite.body import Damaged
from millrace.stores.sqlite.schema import COLUMNS, SUMS, newest, tables, version, written

#: So many copies are kept, the newest.
KEPT = 3
#: What SQLite may have left beside a file: it would be taken for changes of another one there.
_BESIDE = ("-wal", "-shm", "-journal")


def check_whole(connection: sqlite3.Connection) -> None:
    """Raise `Damaged` where a file of a version that is known here is not what was written."""
    answers = [row[0] for row in connection.execute("PRAGMA quick_check")]
    if answers != ["ok"]:
        lines = (line for line in answers[0].splitlines() if not line.startswith("***"))
        raise Damaged(next(lines, answers[0]))
    number = version(connection)
    if written(connection) != tables(number):
        message = f"its tables are not those of version {number}"
        raise Damaged(message)
    for table, columns in COLUMNS.items():
        rows = connection.execute(f"SELECT sum, {columns} FROM {table}")  # noqa: S608
        if any(SUMS[number](*row) != total for total, *row in rows):
            message = f"a row of its {table} is not what was written"
            raise Damaged(message)
    _check_numbers(connection)


def _check_numbers(connection: sqlite3.Connection) -> None:
    """The number that was given last must be that of the last entry, where any is left."""
    (last,) = connection.execute("SELECT max(number) FROM journal").fetchone()
    given = connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
    empty = last is None and [name for name, _ in given] in ([], ["journal"])
    if empty or given == [("journal", last)]:
        return
    message = "it does not know how many entries its journal had"
    raise Damaged(message)


def broken(file: Path, what: str) -> OperationFailed:
    """Return what is told of a file that can't be trusted; it is never begun anew silently."""
    found = _offered(file)
    if found is not None:
        way = f"copy a backup back: {_put_back(found, file)}"
    else:
        way = f"there is no backup; move {file} away to begin anew, and apply the pipelines again"
    return OperationFailed("state-broken", f"the state in {file} is damaged: {what}", way)


def check_unknown(file: Path) -> None:
    """Raise where there is no file, but copies of one: it is not begun anew then."""
    if (found := _offered(file)) is not None:
        raise OperationFailed(
            "state-broken",
            f"the state in {file} is gone, and there are copies of it",
            f"copy a backup back: {_put_back(found, file)}; or move these away, too, to begin anew",
        )


def newer(file: Path, version_found: int) -> OperationFailed:
    """Return what is told of a file that a later Millrace wrote."""
    found = _offered(file)
    way = "start the newer Millrace, or give this one another --home"
    if found is not None:
        way += (
            "; to go back to the last copy that this one can read, without all that was changed "
            f"since: {_put_back(found, file)}"
        )
    return OperationFailed(
        "newer-state",
        f"the state in {file} was written by a newer Millrace (its version is {version_found}, "
        f"ours {newest()})",
        way,
    )


def _offered(file: Path) -> Path | None:
    """The newest copy of a file that can be read here."""
    kept = [_of_version(file, number) for number in range(1, newest() + 1)]
    there = [path for path in (*kept, *copies(file)) if path.is_file()]
    readable = [path for path in there if _version_of(path) in range(1, newest() + 1)]
    return readable[-1] if readable else None


def _version_of(path: Path) -> int:
    """The version of a file that nobody uses: where SQLite's own description has it."""
    with path.open("rb") as file:
        return int.from_bytes(file.read(64)[60:], "big")


def _put_back(copied: Path, file: Path) -> str:
    beside = [f"{file}{end}" for end in _BESIDE if Path(f"{file}{end}").exists()]
    remove = f"rm -f {' '.join(beside)} && " if beside else ""
    return f"{remove}cp {copied} {file}"


def copies(file: Path) -> list[Path]:
    """Return the copies of a file, oldest first."""
    names = sorted(file.parent.glob(f"{file.stem}.backup-*{file.suffix}"), key=_number)
    return [path for path in names if path.is_file()]


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def _of_version(file: Path, number: int) -> Path:
    """Where a file is as it was before its upgrade from a version."""
    return file.with_name(f"{file.stem}.version-{number}{file.suffix}")


def copy(connection: sqlite3.Connection, file: Path) -> Path:
    """Copy a file that is whole; older copies than the last few go. Others may do so meanwhile.

    One that is about to be upgraded is copied once more, to a name of its version, and that stays.
    """
    there = copies(file)
    number = _number(there[-1]) + 1 if there else 1
    target = file.with_name(f"{file.stem}.backup-{number}{file.suffix}")
    _write(connection, target)
    for old in copies(file)[:-KEPT]:
        old.unlink(missing_ok=True)
    if (found := version(connection)) < newest():
        target = _of_version(file, found)
        _write(connection, target)
    return target


def _write(connection: sqlite3.Connection, target: Path) -> None:
    """Copy a file to another, whole or not at all."""
    with fresh_beside(target) as fresh:
        with closing(sqlite3.connect(fresh)) as other:
            connection.backup(other)
        fresh.replace(target)


@contextmanager
def fresh_beside(file: Path) -> Iterator[Path]:
    """Give an empty file in the same folder that nobody else may read; it does not stay."""
    descriptor, name = tempfile.mkstemp(".new", f"{file.name}.", file.parent)
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
