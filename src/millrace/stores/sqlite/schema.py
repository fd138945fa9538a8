"""The tables of the store's file: which version it has, and how an older one becomes ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from importlib import resources

from millrace.errors import OperationFailed

#: Called before each migration with its number: tests end the process there.
Told = Callable[[int], None]


def migrations() -> dict[int, str]:
    """Return the statements that lead to each version from the one before."""
    folder = resources.files("millrace.stores.sqlite") / "migrations"
    files = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    return {int(file.name.partition(".")[0]): file.read_text("utf-8") for file in files}


def newest() -> int:
    """Return the version that this Millrace writes."""
    return max(migrations())


def version(connection: sqlite3.Connection) -> int:
    """Return the version of a file; 0 for an empty one."""
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return found


def migrate(connection: sqlite3.Connection, told: Told | None = None) -> None:
    """Bring the tables up to date in one transaction; raises for a file of a newer Millrace."""
    found, wanted = version(connection), newest()
    if found > wanted:
        raise OperationFailed(
            "newer-state",
            f"the state was written by a newer Millrace (its version is {found}, ours {wanted})",
            "start the newer Millrace, or give this one another --home",
        )
    if found == wanted:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number in range(found + 1, wanted + 1):
            if told is not None:
                told(number)
            for statement in _statements(migrations()[number]):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {wanted}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _statements(text: str) -> Iterator[str]:
    """The statements of a script; `executescript` would commit before the first."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
