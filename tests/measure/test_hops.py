"""The hops of a way add up to the whole."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.measure.hops import appended, hop_times, shares
from millrace.ports import TIMES_HEADER, Record

MS = st.integers(0, 2**40)


def over(times: list[int]) -> Record:
    """Return the last record of a way: each time is its broker's of one hop's record."""
    header = None
    for time in times[:-1]:
        header = appended(header, time)
    return Record(b"", headers=((TIMES_HEADER, header or b""),), time=times[-1])


@given(st.lists(MS, min_size=2, max_size=6))
def test_a_way_is_read_as_it_was_gone(times: list[int]) -> None:
    assert hop_times(over(times)) == tuple(times)


@given(st.lists(st.lists(MS, min_size=4, max_size=4), min_size=1, max_size=20))
def test_shares_add_up_to_the_whole(ways: list[list[int]]) -> None:
    found = shares([over(times) for times in ways], ["a", "b", "c"])
    whole = sum(times[-1] - times[0] for times in ways)
    assert [hop.count for hop in found] == [len(ways)] * 3
    if whole:
        each = [sum(step) for step in zip(*_steps(ways), strict=True)]
        assert [hop.share for hop in found] == pytest.approx([part / whole for part in each])
    if not whole or max(abs(hop.share) for hop in found) < 1000:  # floats that nearly cancel
        assert sum(hop.share for hop in found) == pytest.approx(1)


def _steps(ways: list[list[int]]) -> list[list[int]]:
    return [[after - before for before, after in pairwise(times)] for times in ways]


def test_percentiles_are_in_seconds() -> None:
    found = shares([over([0, took, 2 * took]) for took in range(1, 101)], ["in", "out"])
    assert [(hop.name, hop.p50, hop.p99, hop.share) for hop in found] == [
        ("in", 0.05, 0.099, 0.5),
        ("out", 0.05, 0.099, 0.5),
    ]


def test_records_of_another_way_are_left_out() -> None:
    others = [Record(b"", time=5), over([1, 2]), over([1, 2, 3, 4])]
    found = shares([*others, over([10, 20, 50])], ["in", "out"])
    assert [(hop.count, hop.share) for hop in found] == [(1, 0.25), (1, 0.75)]
    assert shares(others, ["in", "out"]) == []


@pytest.mark.parametrize("header", [b"", b"1,,2", b"x", b"-5", b"1, 2", b"\xff", b"9" * 30])
def test_a_header_that_is_wrong_is_none(header: bytes) -> None:
    assert hop_times(Record(b"", headers=((TIMES_HEADER, header),), time=7)) == ()


def test_a_record_without_time_has_no_way() -> None:
    assert hop_times(Record(b"", headers=((TIMES_HEADER, b"1"),))) == ()
