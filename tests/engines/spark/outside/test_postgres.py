"""A query of a real PostgreSQL as a source: rows as they become visible, none left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pg8000.dbapi  # type: ignore[import-untyped]
import pytest

from millrace.engines.spark.outside.database import opened
from millrace.engines.spark.outside.feed import Ends
from millrace.engines.spark.outside.rows import Rows
from millrace.errors import OperationFailed
from millrace.machine import free_ports
from tests.engines.spark.outside.postgres import PASSWORD, Postgres, postgres

pytestmark = pytest.mark.needs("pg_config")
QUERY = "SELECT id, plate, price, at FROM cars WHERE NOT old"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as found:
        yield found


def connection(server: Postgres) -> pg8000.dbapi.Connection:
    return pg8000.dbapi.connect(
        "reader", "127.0.0.1", "postgres", server.port, PASSWORD, timeout=60
    )


def numbers(feed: Rows, start: Ends, end: Ends) -> list[int]:
    return [
        json.loads(entry.value)["id"]
        for part in feed.parts(start, end)
        for entry in feed.records(part)
    ]


def test_rows_come_when_they_are_settled(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("millrace.engines.spark.outside.rows.time.monotonic", lambda: clock[0])
    feed = Rows("@job", partial(opened, server.address, PASSWORD, QUERY, "id"), 5.0)
    with closing(connection(server)) as slow, closing(connection(server)) as quick:
        quick.cursor().execute(
            "CREATE TABLE cars (id serial, plate text, price numeric, at timestamptz, old bool)"
        )
        quick.commit()
        start = feed.begin()
        assert feed.latest(start) == start
        new = "INSERT INTO cars (plate, price, at, old) VALUES ('é', 1.50, '2026-01-01Z', %s)"
        slow.cursor().execute(new, (False,))  # takes the number 1, and is not done
        quick.cursor().execute(new, (False,))
        quick.cursor().execute(new, (True,))
        quick.commit()
        assert feed.latest(start) == start
        clock[0] += 4
        slow.commit()
        assert feed.latest(start) == start
        clock[0] += 2
        end = feed.latest(start)
        assert numbers(feed, start, end) == [1, 2]
        (part,) = feed.parts(start, end)
        row = json.loads(next(feed.records(part)).value)
        assert (row["plate"], row["price"]) == ("é", "1.50")
        assert row["at"].startswith("2026-01-01T00:00:00")
        quick.cursor().execute(new, (False,))
        quick.commit()
        feed.freeze()  # a drain takes what is there
        last = feed.latest(end)
        assert numbers(feed, end, last) == [4]
        assert numbers(feed, start, end) == [1, 2]


def test_what_is_wrong_with_a_database_is_told(server: Postgres) -> None:
    with pytest.raises(OperationFailed, match="password authentication failed") as found:
        opened(server.address, "wrong", QUERY, "id")
    assert (found.value.transient, "wrong" in found.value.message) == (False, False)
    (port,) = free_ports(1)
    with pytest.raises(OperationFailed, match="can't be asked") as found:
        opened(f"postgresql://reader@127.0.0.1:{port}/postgres", PASSWORD, QUERY, "id")
    assert found.value.transient
