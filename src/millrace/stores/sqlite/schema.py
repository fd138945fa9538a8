"""The tables of the store's file: which version it has, and how an older one becomes ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from importlib import resources

from millrace.stores.sqlite.body import body_sum, row_sum

#: Called before each statement of a migration, and before all is kept, with the version that it
#: leads to and how many statements of it were done: tests end the process there.
Told = Callable[[int, int], None]
#: What tables hold beside a sum of it, in the order in which it is summed.
COLUMNS = {"documents": "kind, name, body", "journal": "number, at, kind, about, body"}
#: How a row is summed, by version.
SUMS: dict[int, Callable[..., int]] = {1: body_sum, 2: row_sum}


@cache
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


@cache
def tables(number: int) -> list[tuple[str, ...]]:
    """Return the tables of a version, as SQLite writes them down."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _lead(connection, 0, number)
        return written(connection)


def written(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    """Return the tables of a file, as SQLite wrote them down."""
    return connection.execute(
        "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master ORDER BY name"
    ).fetchall()


def migrate(connection: sqlite3.Connection, told: Told | None = None) -> None:
    """Bring the tables up to date in one transaction; who comes at the same time waits for it."""
    if version(connection) == newest():
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        _lead(connection, version(connection), newest(), told)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _lead(
    connection: sqlite3.Connection, found: int, wanted: int, told: Told | None = None
) -> None:
    """Make the tables of one version those of another, within a transaction."""
    connection.create_function("row_sum", -1, row_sum, deterministic=True)
    for number in range(found + 1, wanted + 1):
        done = 0
        for done, statement in enumerate(_statements(migrations()[number]), 1):
            if told is not None:
                told(number, done - 1)
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number}")
        if told is not None:
            told(number, done)


def _statements(text: str) -> Iterator[str]:
    """The statements of a script; `executescript` would commit before the first."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
