"""Which rows are taken for written, by what is found in a sink."""

from __future__ import annotations

from typing import Any, cast

from millrace.engines.spark.plans import Sketch
from millrace.engines.spark.resume import FEW, There, unwritten


class Rows:
    """Rows that remember how they are tested."""

    def __init__(self) -> None:
        self.tests: list[str] = []

    def where(self, condition: str) -> Rows:
        self.tests.append(condition)
        return self


def left_out(*there: There, alone: str | None = None) -> str:
    """The test by which rows are left out; empty where all are written."""
    rows = Rows()
    found: Any = unwritten(cast("Sketch", rows), there, alone=alone)
    assert found is rows
    return " ".join(rows.tests)


def of(stream: str, partition: int = 0, position: int = 5) -> There:
    return There(stream, partition, "out", 0, position, 0)


def test_where_nothing_is_there_all_is_written() -> None:
    assert left_out() == left_out(alone="raw") == ""


def test_one_place_asks_for_positions_alone() -> None:
    found = left_out(of("raw"), of("raw", 1, 9), alone="raw")
    assert "position <= 5L" in found
    assert "position <= 9L" in found
    assert found.count("partition") == 2
    assert "topic" not in found


def test_what_was_made_of_another_stream_says_nothing_of_this_one() -> None:
    """A job that reads another stream than before begins at its beginning."""
    assert left_out(of("before", 0, 99), alone="raw") == ""
    found = left_out(of("before", 0, 99), of("raw"), alone="raw")
    assert "99" not in found
    assert "position <= 5L" in found


def test_rows_of_many_places_are_told_apart() -> None:
    few = left_out(*(of("raw", part) for part in range(FEW)))
    assert few.count("topic = 'out'") == FEW
    many = [of("raw", part) for part in range(FEW + 1)]
    assert "try_element_at" in left_out(*many)
    assert "try_element_at" in left_out(*many, alone="raw")
