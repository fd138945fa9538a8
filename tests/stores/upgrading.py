"""Opens a store of an older schema and ends itself by kill -9 somewhere in its upgrade.

`python -m tests.stores.upgrading FILE MODE WHERE COUNT`: MODE is SQLite's journal mode. WHERE is
`statement` (COUNT statements were done), `row` (the sum of the COUNTth row is worked out) or
`kept` (all of it was). It ends with 0 where it did not come there.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from millrace.stores.sqlite import SqliteStore, schema, store
from millrace.stores.sqlite.body import row_sum


def end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Open the file as the arguments say."""
    file, mode, where, count = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    connected = store._connected
    rows = 0

    def small(of: Path) -> sqlite3.Connection:
        """What is changed does not fit into memory: it is written before it is kept."""
        found = connected(of)
        found.execute("PRAGMA cache_size = 1")
        return found

    def summed(*row: Any) -> int:
        nonlocal rows
        rows += 1
        if where == "row" and rows == count:
            end()
        return row_sum(*row)

    def told(_: int, done: int) -> None:
        if where == "statement" and done == count:
            end()

    schema.tables(1)  # which leads there in a memory of its own
    with (
        mock.patch.object(store, "_WAL_FROM", (3, 7, 0) if mode == "wal" else (99, 0, 0)),
        mock.patch.object(store, "_connected", small),
        mock.patch.object(schema, "row_sum", summed),
    ):
        SqliteStore(file, told=told)
    if where == "kept":
        end()


if __name__ == "__main__":
    main()
