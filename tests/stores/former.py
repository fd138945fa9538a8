"""The Millrace of schema 1, as far as its store goes: how it opened, read and wrote a file.

It stands for a program that was released. What it does is not to be changed with the store's code.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

#: Documents by kind and name; entries of the journal as number, time, kind, about and detail.
Content = tuple[dict[tuple[str, str], Any], list[tuple[int, float, str, str, Any]]]
VERSION = 1


@contextmanager
def _opened(file: Path) -> Iterator[sqlite3.Connection]:
    """Open a file as it did: it refuses what is newer, damaged or empty."""
    with closing(sqlite3.connect(file, timeout=5, isolation_level=None)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        connection.execute("PRAGMA synchronous = FULL")
        assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
        for table in ("documents", "journal"):
            for body, total in connection.execute(f"SELECT body, sum FROM {table}"):  # noqa: S608
                assert zlib.crc32(body) == total
        yield connection


def _document(body: bytes) -> Any:
    return json.loads(zlib.decompress(body))


def read(file: Path) -> Content:
    """Return all that it finds in a file."""
    with _opened(file) as connection:
        documents = connection.execute("SELECT kind, name, body FROM documents").fetchall()
        journal = connection.execute(
            "SELECT number, at, kind, about, body FROM journal ORDER BY number"
        ).fetchall()
    return (
        {(kind, name): _document(body) for kind, name, body in documents},
        [(*row, _document(body)) for *row, body in journal],
    )


def write(file: Path, about: str) -> None:
    """Keep another document and tell the journal of it."""
    body = zlib.compress(json.dumps({"about": about}).encode())
    with _opened(file) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT INTO documents VALUES ('note', ?, ?, ?)", (about, body, zlib.crc32(body))
        )
        connection.execute(
            "INSERT INTO journal (at, kind, about, body, sum) VALUES (1.5, 'event', ?, ?, ?)",
            (about, body, zlib.crc32(body)),
        )
        connection.execute("COMMIT")
