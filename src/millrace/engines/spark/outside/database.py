"""A query of a database, asked for rows by their number: SQLite and PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from millrace.errors import OperationFailed

#: How long a database may take to answer.
SECONDS = 60


@dataclass(slots=True)
class Database:
    """An open connection that knows one query; close it by leaving it.

    The query is the user's own, and what is put around it holds no text of others.
    """

    connection: Any
    query: str
    by: str
    #: How this database marks a parameter.
    mark: str

    def __enter__(self) -> Self:
        """Nothing to do: it is open."""
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        """Close."""
        self.connection.close()

    def last(self, after: int, most: int) -> int | None:
        """Return the number of the last row, or of the one after `most` rows."""
        ((found,),) = self._asked(
            f"SELECT max(n) FROM (SELECT {self._number} AS n FROM ({self.query}) q "  # noqa: S608
            f"WHERE {self._number} > {self.mark} ORDER BY n LIMIT {most}) m",
            after,
        )
        return None if found is None else int(found)

    def count(self, after: int, last: int) -> int:
        """Return how many rows lie between."""
        statement = f"SELECT count(*) FROM ({self.query}) q {self._between}"  # noqa: S608
        ((found,),) = self._asked(statement, after, last)
        return int(found)

    def rows(self, after: int, last: int) -> Iterator[dict[str, Any]]:
        """Return the rows between, in the order of their numbers."""
        statement = f"SELECT * FROM ({self.query}) q {self._between} ORDER BY {self._number}"  # noqa: S608
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(statement, (after, last))
            names = [column[0] for column in cursor.description]
            while rows := cursor.fetchmany(10_000):
                for row in rows:
                    yield dict(zip(names, row, strict=True))

    @property
    def _number(self) -> str:
        quoted = self.by.replace('"', '""')
        return f'"{quoted}"'

    @property
    def _between(self) -> str:
        return f"WHERE {self._number} > {self.mark} AND {self._number} <= {self.mark}"

    def _asked(self, statement: str, *parameters: int) -> Any:
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall()


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
        return Database(connection, query, by, "?")
    if kind == "postgresql":
        return Database(_postgresql(address, password), query, by, "CAST(%s AS bigint)")
    raise OperationFailed(
        "no-database",
        f"{kind!r} is no database that can be asked",
        "write sqlite:PATH or postgresql://USER@HOST/NAME",
    )


def _postgresql(address: str, password: str | None) -> Any:
    import pg8000.dbapi  # type: ignore[import-untyped]  # noqa: PLC0415 - few jobs need it

    parts = urlsplit(address)
    try:
        return pg8000.dbapi.connect(
            user=unquote(parts.username or "postgres"),
            host=parts.hostname or "localhost",
            port=parts.port or 5432,
            database=parts.path.strip("/") or None,
            password=password,
            timeout=SECONDS,
        )
    except pg8000.dbapi.InterfaceError as error:  # nobody answers
        raise _refused(address, error, transient=True) from error
    except pg8000.dbapi.DatabaseError as error:
        raise _refused(address, error) from error


def _refused(address: str, error: Exception, *, transient: bool = False) -> OperationFailed:
    said = error.args[0] if error.args else error
    message = said.get("M") if isinstance(said, dict) else said
    return OperationFailed(
        "no-database",
        f"the database {address} can't be asked: {message}",
        "look at `database`, and at `password` with the name of a secret",
        transient=transient,
    )
