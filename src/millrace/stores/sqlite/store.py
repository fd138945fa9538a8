"""A store in one file of SQLite: one connection, one transaction for each change."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from millrace.errors import OperationFailed
from millrace.ports.store import Change, Conflict, Document, Entry, EntryKind, Key
from millrace.stores.sqlite.body import Damaged, packed, unpacked
from millrace.stores.sqlite.check import broken, check_whole, copy
from millrace.stores.sqlite.schema import Told, migrate, newest, version

#: Older versions of SQLite may damage a file in the other mode: sqlite.org/wal.html#walresetbug.
_WAL_FROM = (3, 51, 3)
_BUSY_SECONDS = 5.0
_FULL = "database or disk is full"
_LOCKED = "database is locked"


class SqliteStore:
    """See the port. A file that is damaged or of a newer Millrace is refused when it is opened."""

    def __init__(
        self, file: Path, *, clock: Callable[[], float] = time.time, told: Told | None = None
    ) -> None:
        self._file = file
        self._clock = clock
        self._lock = threading.RLock()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = not file.exists()
        file.touch(mode=0o600)
        self._connection = sqlite3.connect(
            file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            self._open(told, new=new)
        except BaseException:
            self._connection.close()
            raise

    def _open(self, told: Told | None, *, new: bool) -> None:
        with self._told():
            before = version(self._connection)
            wal = sqlite3.sqlite_version_info >= _WAL_FROM
            self._connection.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA secure_delete = ON")
            if before == 0 and not new:
                raise broken(self._file, "its tables are gone")
            if before in range(1, newest() + 1):
                check_whole(self._connection, self._file)
                copy(self._connection, self._file)
            migrate(self._connection, told)

    def load(self, kind: str) -> dict[str, Document]:
        """Return the documents of a kind; see the port."""
        with self._told():
            rows = self._connection.execute(
                "SELECT name, body, sum FROM documents WHERE kind = ? ORDER BY name", (kind,)
            )
            return {name: unpacked(body, total) for name, body, total in rows}

    def commit(self, change: Change) -> int:
        """Make a change; see the port."""
        with self._told(), self._transaction() as connection:
            for key, expected in change.expects.items():
                if (found := self._document(key)) != expected:
                    raise Conflict(key, found)
            connection.executemany(
                "DELETE FROM documents WHERE kind = ? AND name = ?", sorted(change.gone)
            )
            connection.executemany(
                "INSERT INTO documents (kind, name, body, sum) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (kind, name) DO UPDATE SET body = excluded.body, sum = excluded.sum",
                [(*key, *packed(document)) for key, document in change.puts.items()],
            )
            now = self._clock()
            connection.executemany(
                "INSERT INTO journal (at, kind, about, body, sum) VALUES (?, ?, ?, ?, ?)",
                [(now, e.kind, e.about, *packed(e.detail)) for e in change.entries],
            )
            return self._last()

    def entries(self, after: int, most: int) -> list[Entry]:
        """Return entries of the journal; see the port."""
        with self._told():
            rows = self._connection.execute(
                "SELECT kind, about, body, sum, number, at FROM journal WHERE number > ? "
                "ORDER BY number LIMIT ?",
                (after, most),
            )
            return [
                Entry(EntryKind(kind), about, unpacked(body, total), number, at)
                for kind, about, body, total, number, at in rows
            ]

    def compact(self, before: int) -> None:
        """Forget entries of the journal; see the port."""
        with self._told():
            with self._transaction() as connection:
                connection.execute("DELETE FROM journal WHERE number < ?", (before,))
            self._connection.execute("VACUUM")

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    def _document(self, key: Key) -> Document | None:
        row = self._connection.execute(
            "SELECT body, sum FROM documents WHERE kind = ? AND name = ?", key
        ).fetchone()
        return None if row is None else unpacked(*row)

    def _last(self) -> int:
        """The number of the last entry; it is known when all of them are gone, too."""
        query = "SELECT seq FROM sqlite_sequence WHERE name = 'journal'"
        rows: Sequence[Any] = self._connection.execute(query).fetchall()
        return int(rows[0][0]) if rows else 0

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Alone with the connection; what SQLite complains of is told in our words."""
        with self._lock:
            try:
                yield
            except sqlite3.OperationalError as error:
                raise self._failure(error) from error
            except (sqlite3.DatabaseError, Damaged) as error:
                raise broken(self._file, str(error)) from error

    def _failure(self, error: sqlite3.OperationalError) -> OperationFailed:
        if _FULL in str(error):
            return OperationFailed(
                "disk-full",
                f"there is no room for the state in {self._file}",
                "make room on that disk; what runs goes on meanwhile, and nothing of this change "
                "was kept",
                transient=True,
            )
        return OperationFailed(
            "no-state",
            f"the state in {self._file} can't be used: {error}",
            "a process that stands still may hold it: end that (fuser FILE names it)"
            if _LOCKED in str(error)
            else "",
            transient=True,
        )
