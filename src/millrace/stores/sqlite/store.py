"""A store in one file of SQLite: one connection, one transaction for each change."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from millrace.errors import OperationFailed
from millrace.ports.store import Change, Conflict, Document, Entry, EntryKind, Key
from millrace.stores.sqlite.body import Damaged, packed, row_sum, unpacked
from millrace.stores.sqlite.check import (
    broken,
    check_unknown,
    check_whole,
    copy,
    fresh_beside,
    newer,
)
from millrace.stores.sqlite.schema import Told, migrate, newest, version

_LOG = logging.getLogger(__name__)
#: Older versions of SQLite may damage a file in the other mode: sqlite.org/wal.html#walresetbug.
_WAL_FROM = (3, 51, 3)
_BUSY_SECONDS = 5.0
#: The part of SQLite's codes that says what kind of error it is.
_PRIMARY = 0xFF
#: Errors that say nothing of the file, but of who holds it, of its disk and of this process.
_AROUND = frozenset(
    {
        sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT,
    }
)  # fmt: skip


class SqliteStore:
    """See the port. A file that is damaged or of a newer Millrace is refused when it is opened.

    One of an older Millrace is copied and upgraded, of which `warn` is told.
    """

    def __init__(
        self,
        file: Path,
        *,
        clock: Callable[[], float] = time.time,
        told: Told | None = None,
        warn: Callable[[str], None] = _LOG.warning,
    ) -> None:
        self._file = file
        self._clock = clock
        self._lock = threading.RLock()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = not file.exists()
        if new:
            check_unknown(file)
            with self._told():
                _begin(file, told)
        self._connection = _connected(file)
        try:
            self._open(told, warn, new=new)
        except BaseException:
            self._connection.close()
            raise

    def _open(self, told: Told | None, warn: Callable[[str], None], *, new: bool) -> None:
        with self._told():
            self._version()
            wal = sqlite3.sqlite_version_info >= _WAL_FROM
            self._connection.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA secure_delete = ON")
            with self._transaction("BEGIN"):  # others may upgrade it meanwhile
                before = self._version()
                check_whole(self._connection)
                copied = self._file if new else copy(self._connection, self._file)
            migrate(self._connection, told)
        if before != newest():
            warn(
                f"the state in {self._file} was upgraded from version {before} to {newest()}; "
                f"as it was before, it is in {copied}"
            )

    def _version(self) -> int:
        """The version of the file; raises where it can't be read here."""
        found = version(self._connection)
        if found > newest():
            raise newer(self._file, found)
        if found < 1:
            raise broken(self._file, "its tables are gone")
        return found

    def load(self, kind: str) -> dict[str, Document]:
        """Return the documents of a kind; see the port."""
        with self._told():
            rows = self._connection.execute(
                "SELECT name, body, sum FROM documents WHERE kind = ? ORDER BY name", (kind,)
            )
            return {name: unpacked(total, kind, name, body) for name, body, total in rows}

    def commit(self, change: Change) -> int:
        """Make a change; see the port."""
        with self._told(), self._transaction() as connection:
            for key, expected in change.expects.items():
                if (found := self._document(key)) != expected:
                    raise Conflict(key, found)
            connection.executemany(
                "DELETE FROM documents WHERE kind = ? AND name = ?", sorted(change.gone)
            )
            documents = [(*key, packed(document)) for key, document in change.puts.items()]
            connection.executemany(
                "INSERT INTO documents (kind, name, body, sum) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (kind, name) DO UPDATE SET body = excluded.body, sum = excluded.sum",
                [(*row, row_sum(*row)) for row in documents],
            )
            last, now = self._last(), float(self._clock())
            entries = [
                (number, now, entry.kind.value, entry.about, packed(entry.detail))
                for number, entry in enumerate(change.entries, last + 1)
            ]
            connection.executemany(
                "INSERT INTO journal (number, at, kind, about, body, sum) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                [(*row, row_sum(*row)) for row in entries],
            )
            return last + len(entries)

    def entries(self, after: int, most: int) -> list[Entry]:
        """Return entries of the journal; see the port."""
        with self._told():
            rows = self._connection.execute(
                "SELECT sum, number, at, kind, about, body FROM journal WHERE number > ? "
                "ORDER BY number LIMIT ?",
                (after, most),
            )
            return [_entry(*row) for row in rows]

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
        return None if row is None else unpacked(row[1], *key, row[0])

    def _last(self) -> int:
        """The number of the last entry; it is known when all of them are gone, too."""
        query = "SELECT seq FROM sqlite_sequence WHERE name = 'journal'"
        rows: Sequence[Any] = self._connection.execute(query).fetchall()
        return int(rows[0][0]) if rows else 0

    @contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        self._connection.execute(begin)
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
            except (sqlite3.DatabaseError, Damaged, UnicodeDecodeError) as error:
                raise broken(self._file, str(error)) from error

    def _failure(self, error: sqlite3.OperationalError) -> OperationFailed:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY
        if code == sqlite3.SQLITE_FULL:
            return OperationFailed(
                "disk-full",
                f"there is no room for the state in {self._file}",
                "make room on that disk; what runs goes on meanwhile, and nothing of this change "
                "was kept",
                transient=True,
            )
        writable = os.access(self._file, os.W_OK)  # as a header with one wrong bit says it is not
        if code not in _AROUND or (code == sqlite3.SQLITE_READONLY and writable):
            return broken(self._file, str(error))
        return OperationFailed(
            "no-state",
            f"the state in {self._file} can't be used: {error}",
            "a process that stands still may hold it: end that (fuser FILE names it)"
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            else "",
            transient=True,
        )


def _connected(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )


def _begin(file: Path, told: Told | None) -> None:
    """Make a file with its tables, whole or not at all; who does so at the same time may win."""
    with fresh_beside(file) as fresh:
        with closing(_connected(fresh)) as connection:
            migrate(connection, told)
        try:
            os.link(fresh, file)
        except FileExistsError:
            pass
        except OSError:  # there are disks that know no links
            fresh.rename(file)


def _entry(total: int, number: int, at: float, kind: str, about: str, body: bytes) -> Entry:
    detail = unpacked(total, number, at, kind, about, body)
    return Entry(EntryKind(kind), about, detail, number, at)
