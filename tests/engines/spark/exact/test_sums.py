"""Sums do not depend on order and are rounded once."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millrace.engines.spark.exact import sums

FINITE = st.floats(allow_nan=False, allow_infinity=False)
GROUPS = 3


def rounded(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


@given(st.lists(st.tuples(st.integers(0, GROUPS - 1), FINITE), max_size=40))
def test_doubles_add_up_exactly(pairs: list[tuple[int, float]]) -> None:
    groups = np.array([group for group, _ in pairs], dtype=np.int64)
    values = np.array([value for _, value in pairs], dtype=np.float64)
    found = sums.of_doubles(values, groups, GROUPS)
    for group in range(GROUPS):
        wanted = sum((Fraction(v) for g, v in pairs if g == group), Fraction(0))
        assert Fraction(found[group], 1 << sums.FRACTION) == wanted
        assert sums.double(found[group]) == rounded(wanted)
        assert sums.unpacked(sums.packed(found[group])) == found[group]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-(2**63), 2**63 - 1)), max_size=40))
def test_whole_numbers_add_up_exactly(pairs: list[tuple[int, int]]) -> None:
    groups = np.array([group for group, _ in pairs], dtype=np.int64)
    values = np.array([value for _, value in pairs], dtype=np.int64)
    found = sums.of_integers(values, groups, GROUPS)
    assert found == [sum(v for g, v in pairs if g == group) for group in range(GROUPS)]
