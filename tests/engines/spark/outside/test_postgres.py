"""A query of a real PostgreSQL as a source: rows as they become visible, none left out."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pg8000.dbapi  # type: ignore[import-untyped]
import pytest

from millrace.engines.spark.outside import database
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
    waited: list[float] = []
    connect = partial(opened, server.address, PASSWORD, QUERY, "id")
    with (
        closing(Rows("@job", connect, 5.0, looks=0, pause=waited.append)) as feed,
        closing(connection(server)) as slow,
        closing(connection(server)) as quick,
    ):
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
        feed.freeze()  # a drain takes what is there, when it is settled
        assert waited == [5.0]
        last = feed.latest(end)
        assert numbers(feed, end, last) == [4]
        assert numbers(feed, start, end) == [1, 2]


def test_signs_and_ends_of_a_query_are_left_alone(server: Postgres) -> None:
    query = "SELECT 10 % 4 AS id, 'a%%b%s' AS t, '\\xff00'::bytea AS b -- that's all"
    with opened(server.address, PASSWORD, query, "id") as asked:
        asked.check()
        assert asked.last(-(2**63), 10) == 2
        assert list(asked.rows(1, 2)) == [{"id": 2, "t": "a%%b%s", "b": b"\xff\x00"}]
        assert asked.count(2, 2**63 - 1) == 0


def test_a_look_leaves_no_transaction_and_a_lost_connection_is_made_anew(server: Postgres) -> None:
    connect = partial(opened, server.address, PASSWORD, "SELECT 5 AS id", "id")
    state = "SELECT state, pid FROM pg_stat_activity WHERE query LIKE 'SELECT count(*)%'"
    with (
        closing(Rows("@job", connect, 0.0, looks=0)) as feed,
        closing(connection(server)) as other,
    ):
        other.autocommit = True
        for _ in range(2):
            assert numbers(feed, feed.begin(), feed.latest(feed.begin())) == [5]
        cursor = other.cursor()
        cursor.execute(state)
        ((found, process),) = cursor.fetchall()
        assert found == "idle"
        cursor.execute("SELECT pg_terminate_backend(%s)", (process,))
        assert numbers(feed, feed.begin(), feed.latest(feed.begin())) == [5]


def test_a_server_elsewhere_is_not_asked_without_tls(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "tls_for", lambda _: ssl.create_default_context())
    with pytest.raises(OperationFailed, match="can't be asked: Server refuses SSL"):
        opened(server.address, PASSWORD, QUERY, "id")


def test_parameters_of_an_address_are_refused(server: Postgres) -> None:
    with pytest.raises(OperationFailed, match="not known: sslmode, password") as found:
        opened(f"{server.address}?sslmode=disable&password=sesame", PASSWORD, QUERY, "id")
    assert "sesame" not in str(found.value)


def test_what_is_wrong_with_a_database_is_told(server: Postgres) -> None:
    with pytest.raises(OperationFailed, match="password authentication failed") as found:
        opened(server.address, "wrong", QUERY, "id")
    assert (found.value.transient, "wrong" in found.value.message) == (False, False)
    (port,) = free_ports(1)
    with pytest.raises(OperationFailed, match="can't be asked") as found:
        opened(f"postgresql://reader@127.0.0.1:{port}/postgres", PASSWORD, QUERY, "id")
    assert found.value.transient
