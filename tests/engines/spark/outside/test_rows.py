"""A query of a database as a source: rows by their own numbers, none left out, none taken twice."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from millrace.engines.spark.outside.database import opened, tls_for
from millrace.engines.spark.outside.feed import Ends, SourceFailed
from millrace.engines.spark.outside.rows import Rows
from millrace.errors import OperationFailed

NAME = "@job"
QUERY = "SELECT id, plate FROM cars WHERE old = 0"


def taken(feed: Rows, start: Ends, end: Ends) -> list[tuple[int, object]]:
    parts = feed.parts(start, end)
    return [(e.position, json.loads(e.value)) for part in parts for e in feed.records(part)]


@pytest.fixture
def cars(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "cars.db")) as database:
        database.execute("CREATE TABLE cars (id INTEGER PRIMARY KEY, plate TEXT, old INT)")
        yield database


def insert(database: sqlite3.Connection, *rows: tuple[int | None, str, int | None]) -> None:
    with database:
        database.executemany("INSERT INTO cars VALUES (?, ?, ?)", rows)


@contextmanager
def rows(
    place: Path,
    settles: float = 0.0,
    *,
    query: str = QUERY,
    by: str = "id",
    looks: float = 0.0,
    waited: list[float] | None = None,
) -> Iterator[Rows]:
    connect = partial(opened, f"sqlite:{place}/cars.db", None, query, by)
    pause = ([] if waited is None else waited).append
    with closing(Rows(NAME, connect, settles, looks=looks, pause=pause)) as found:
        yield found


def test_a_query_gives_what_is_new(tmp_path: Path, cars: sqlite3.Connection) -> None:
    with rows(tmp_path) as feed:
        start = feed.begin()
        assert feed.latest(start) == start
        insert(cars, (-3, "a", 0), (7, "b", 1), (9, "c", 0))
        first = feed.latest(start)
        assert first[NAME] == {"0": 2}
        assert taken(feed, start, first) == [
            (-3, {"id": -3, "plate": "a"}),
            (9, {"id": 9, "plate": "c"}),
        ]
        insert(cars, (20, "d", 0))
        second = feed.latest(first)
        assert taken(feed, first, second) == [(20, {"id": 20, "plate": "d"})]
        assert feed.latest(second) == second


def test_a_row_has_its_position_whatever_is_deleted(
    tmp_path: Path, cars: sqlite3.Connection
) -> None:
    """A batch that runs again leaves out what is written by its positions."""
    insert(cars, (1, "a", 0), (2, "b", 0), (3, "c", 0))
    with rows(tmp_path) as feed:
        start = feed.begin()
        end = feed.latest(start)
        before = dict(taken(feed, start, end))
        with cars:
            cars.execute("DELETE FROM cars WHERE id = 1")
        after = dict(taken(feed, start, end))
    assert after == {number: before[number] for number in (2, 3)}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found = [0.0]
    monkeypatch.setattr("millrace.engines.spark.outside.rows.time.monotonic", lambda: found[0])
    return found


def test_a_number_counts_when_it_is_settled(
    tmp_path: Path, cars: sqlite3.Connection, clock: list[float]
) -> None:
    """A row that is written after one with a greater number is not left out."""
    with rows(tmp_path, settles=2) as feed:
        start = feed.begin()
        insert(cars, (2, "b", 0))
        assert feed.latest(start) == start
        clock[0] = 1.0
        insert(cars, (1, "a", 0))
        assert feed.latest(start) == start
        clock[0] = 2.0
        end = feed.latest(start)
        assert [position for position, _ in taken(feed, start, end)] == [1, 2]


def test_a_drain_waits_for_rows_in_the_making(tmp_path: Path, cars: sqlite3.Connection) -> None:
    insert(cars, (2, "b", 0))
    connect = partial(opened, f"sqlite:{tmp_path}/cars.db", None, QUERY, "id")

    def pause(seconds: float) -> None:
        assert seconds == 2
        insert(cars, (1, "late", 0), (3, "after", 0))

    with closing(Rows(NAME, connect, 2.0, pause=pause)) as feed:
        start = feed.begin()
        feed.freeze()
        end = feed.latest(start)
        assert [position for position, _ in taken(feed, start, end)] == [1, 2]
        assert feed.latest(end) == end


def test_a_drain_of_nothing_takes_nothing(tmp_path: Path, cars: sqlite3.Connection) -> None:
    with rows(tmp_path) as feed:
        feed.freeze()
        insert(cars, (1, "a", 0))
        assert feed.latest(feed.begin()) == feed.begin()


def test_a_database_is_not_asked_all_the_time(
    tmp_path: Path, cars: sqlite3.Connection, clock: list[float]
) -> None:
    with rows(tmp_path, looks=1.0) as feed:
        start = feed.begin()
        assert feed.latest(start) == start
        insert(cars, (1, "a", 0))
        clock[0] = 0.9
        assert feed.latest(start) == start
        clock[0] = 1.0
        assert len(taken(feed, start, feed.latest(start))) == 1


def test_another_file_in_the_place_of_a_database_is_seen(
    tmp_path: Path, cars: sqlite3.Connection
) -> None:
    insert(cars, (1, "a", 0))
    with rows(tmp_path) as feed:
        start = feed.begin()
        first = feed.latest(start)
        (tmp_path / "other").mkdir()
        with closing(sqlite3.connect(tmp_path / "other" / "cars.db")) as other:
            cars.backup(other)
            insert(other, (2, "b", 0))
        (tmp_path / "other" / "cars.db").replace(tmp_path / "cars.db")
        assert [position for position, _ in taken(feed, first, feed.latest(first))] == [2]


@pytest.mark.parametrize(
    ("query", "by", "said"),
    [
        ("SELECT id, plate FROM cars", "ide", "no column of the query.*did you mean 'id'"),
        ("SELECT plate FROM cars", "id", "no column of the query, which has plate"),
        ("SELECT plate, old FROM cars", "old", "WHERE old IS NOT NULL"),
        ("SELECT plate AS id FROM cars", "id", "whole numbers, and holds 'a'"),
        ("SELECT id + 0.5 AS id FROM cars", "id", "whole numbers, and holds 1.5"),
    ],
)
def test_numbers_that_are_none(
    tmp_path: Path, cars: sqlite3.Connection, query: str, by: str, said: str
) -> None:
    insert(cars, (1, "a", None))
    with rows(tmp_path, query=query, by=by) as feed, pytest.raises(SourceFailed, match=said):
        feed.latest(feed.begin())


def test_a_number_that_comes_twice_is_told(tmp_path: Path, cars: sqlite3.Connection) -> None:
    insert(cars, (1, "a", 5), (2, "b", 5))
    with rows(tmp_path, query="SELECT old FROM cars", by="old") as feed:
        start = feed.begin()
        with pytest.raises(SourceFailed, match="5 twice"):
            taken(feed, start, feed.latest(start))


@pytest.mark.parametrize("end", [";", " ; ", " -- all of them", "\n;\n"])
def test_the_end_of_a_query_hides_nothing(
    tmp_path: Path, cars: sqlite3.Connection, end: str
) -> None:
    insert(cars, (1, "a", 0))
    with rows(tmp_path, query=QUERY + end) as feed:
        start = feed.begin()
        assert len(taken(feed, start, feed.latest(start))) == 1


@pytest.mark.parametrize(
    ("address", "message"), [("sqlite:none.db", "no database"), ("oracle:x", "'oracle' is no")]
)
def test_databases_that_are_not(address: str, message: str) -> None:
    with pytest.raises(OperationFailed, match=message):
        opened(address, None, "SELECT 1", "id")


def test_servers_elsewhere_must_prove_who_they_are() -> None:
    assert [tls_for(host) for host in ("localhost", "127.0.0.2", "::1")] == [None] * 3
    for host in ("db.example.org", "10.0.0.1", "localhost.example.org"):
        context = tls_for(host)
        assert context is not None
        assert context.check_hostname
        assert context.verify_mode.name == "CERT_REQUIRED"
