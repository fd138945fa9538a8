"""A query of a database, asked for rows by their number: SQLite and PostgreSQL."""

from __future__ import annotations

import ipaddress
import sqlite3
import ssl
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from millrace.engines.spark.outside.feed import SourceFailed
from millrace.errors import OperationFailed, nearest

#: How long a database may take to answer.
SECONDS = 60


@dataclass(slots=True)
class Database:
    """An open connection that knows one query; close it by leaving it.

    The query is the user's own, and what is put around it holds no text of others: numbers are
    written into it, so that no sign of the query (`%`, `?`) is taken for a parameter.
    """

    connection: Any
    query: str
    by: str
    #: The file that was opened, if it is one, and which file that was then.
    file: Path | None = None
    _inode: int = field(default=0)

    def __post_init__(self) -> None:
        """Make of the query what can stand in another one."""
        # The end of a line, for a comment at the end of the query would hide what follows.
        self.query = f"({self.query.strip().rstrip(';').rstrip()}\n) q"
        if self.file is not None:
            self._inode = self.file.stat().st_ino

    def __enter__(self) -> Self:
        """Nothing to do: it is open."""
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close; a connection that is broken is closed already."""
        with suppress(Exception):
            self.connection.close()

    @property
    def stale(self) -> bool:
        """Whether another file is in the place of the one that is open."""
        try:
            return self.file is not None and self.file.stat().st_ino != self._inode
        except FileNotFoundError:
            return True

    def check(self) -> None:
        """Raise where `by` can't tell the rows apart: it is no column, or empty in some."""
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(f"SELECT * FROM {self.query} LIMIT 0")  # noqa: S608
            names = [column[0] for column in cursor.description]
        if self.by not in names:
            near = nearest(self.by, names)
            raise SourceFailed(
                f"`by: {self.by}` is no column of the query, which has {', '.join(names)}: "
                + (f"did you mean {near!r}?" if near else "select it, too")
            )
        statement = f"SELECT 1 FROM {self.query} WHERE {self._number} IS NULL LIMIT 1"  # noqa: S608
        if self._asked(statement):
            raise SourceFailed(
                f"the query has rows without a number (`{self.by}` is NULL), which would never be "
                f"read: leave them out by WHERE {self.by} IS NOT NULL"
            )

    def last(self, after: int, most: int) -> int | None:
        """Return the number of the last row, or of the one after `most` rows."""
        ((found,),) = self._asked(
            f"SELECT max(n) FROM (SELECT {self._number} AS n FROM {self.query} "  # noqa: S608
            f"WHERE {self._number} > {_whole(after)} ORDER BY n LIMIT {most}) m"
        )
        return None if found is None else self.number(found)

    def number(self, value: Any) -> int:
        """Return what `by` holds as a whole number; raises where it is none."""
        with suppress(ValueError, TypeError, OverflowError):
            if not isinstance(value, str | bool) and int(value) == value:
                return int(value)
        raise SourceFailed(
            f"`by: {self.by}` must hold whole numbers, and holds {value!r}: name another column"
        )

    def count(self, after: int, last: int) -> int:
        """Return how many rows lie between."""
        statement = f"SELECT count(*) FROM {self.query} {self._between(after, last)}"  # noqa: S608
        ((found,),) = self._asked(statement)
        return int(found)

    def rows(self, after: int, last: int) -> Iterator[dict[str, Any]]:
        """Return the rows between, in the order of their numbers."""
        between = self._between(after, last)
        statement = f"SELECT * FROM {self.query} {between} ORDER BY {self._number}"  # noqa: S608
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(statement)
            names = [column[0] for column in cursor.description]
            while rows := cursor.fetchmany(10_000):
                for row in rows:
                    yield dict(zip(names, row, strict=True))

    @property
    def _number(self) -> str:
        # With the name of the query: SQLite takes a lone name that it does not know for a text.
        quoted = self.by.replace('"', '""')
        return f'q."{quoted}"'

    def _between(self, after: int, last: int) -> str:
        return f"WHERE {self._number} > {_whole(after)} AND {self._number} <= {_whole(last)}"

    def _asked(self, statement: str) -> Any:
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(statement)
            return cursor.fetchall()


def _whole(number: int) -> str:
    """A number as both databases take it, the least one included."""
    return f"CAST('{number:d}' AS bigint)"


def opened(address: str, password: str | None, query: str, by: str) -> Database:
    """Return a database that is open for reading."""
    kind, _, rest = address.partition(":")
    if kind == "sqlite":
        path = Path(rest).absolute()
        if not path.is_file():
            raise OperationFailed(
                "no-database", f"there is no database {path}", "look at `database`"
            )
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=SECONDS)
        return Database(connection, query, by, path)
    if kind == "postgresql":
        return Database(_postgresql(address, password), query, by)
    raise SourceFailed(
        f"{kind!r} is no database that can be asked: "
        "write sqlite:PATH or postgresql://USER@HOST/NAME"
    )


def _postgresql(address: str, password: str | None) -> Any:
    import pg8000.dbapi  # type: ignore[import-untyped]  # noqa: PLC0415 - few jobs need it

    parts = urlsplit(address)
    _no_parameters(parts.query)
    host = parts.hostname or "localhost"
    try:
        connection = pg8000.dbapi.connect(
            user=unquote(parts.username or "postgres"),
            host=host,
            port=parts.port or 5432,
            database=unquote(parts.path.strip("/")) or None,
            password=password,
            timeout=SECONDS,
            ssl_context=tls_for(host),
        )
    except ssl.SSLCertVerificationError as error:
        raise _refused(address, error) from error
    except pg8000.dbapi.InterfaceError as error:  # nobody answers, or not by TLS
        raise _refused(address, error, transient=True) from error
    except pg8000.dbapi.DatabaseError as error:
        raise _refused(address, error) from error
    except OSError as error:
        raise _refused(address, error, transient=True) from error
    # Else each look would leave a transaction open, which holds up the server's tidying.
    connection.autocommit = True
    return connection


def _no_parameters(query: str) -> None:
    if names := [name for name, _ in parse_qsl(query, keep_blank_values=True)]:
        raise SourceFailed(
            f"the address of the database has parameters that are not known: {', '.join(names)}: "
            "leave them out; TLS is used, and checked, for all but this machine itself (name "
            "authorities of your own in SSL_CERT_FILE)"
        )


def tls_for(host: str) -> ssl.SSLContext | None:
    """Return how a server is known to be the right one; nothing for this machine itself."""
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return None
    return None if host == "localhost" else ssl.create_default_context()


def _refused(address: str, error: Exception, *, transient: bool = False) -> OperationFailed:
    said = error.args[0] if error.args else error
    message = said.get("M") if isinstance(said, dict) else said
    if isinstance(error, OSError):
        message = error
    text = f"the database {address} can't be asked: {message}"
    hint = "look at `database`, and at `password` with the name of a secret"
    if transient:
        return OperationFailed("no-database", text, hint, transient=True)
    return SourceFailed(f"{text} ({hint})")
