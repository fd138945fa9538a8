"""Groups go round Spark's tasks, by Spark's own hash."""

from __future__ import annotations

from collections import Counter

import pytest

from millrace.engines.spark.seats import _hash, seats


def test_the_hash_is_that_of_spark() -> None:
    """As `SELECT hash(0), hash(1), hash(2)` has it, without the sign."""
    assert [_hash(number) for number in range(3)] == [933211791, 3735386339, 1765031574]


@pytest.mark.parametrize("tasks", [2, 4, 8])
def test_each_task_has_as_many(tasks: int) -> None:
    for groups in (tasks, 2 * tasks, 8 * tasks):
        found = Counter(_hash(seat) % tasks for seat in seats(groups))
        assert set(found.values()) == {groups // tasks}


def test_groups_keep_their_numbers_when_there_are_more() -> None:
    assert seats(100)[:7] == seats(7)
    assert len(set(seats(100))) == 100
