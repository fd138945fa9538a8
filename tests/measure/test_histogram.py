"""Percentiles are those of the sorted list, to three digits."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.measure.histogram import Histogram

SECONDS = st.floats(0.001, 3600)


def filled(values: list[float]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


@settings(max_examples=30)
@given(st.lists(SECONDS, min_size=1, max_size=50), st.sampled_from([1, 50, 90, 99, 100]))
def test_percentiles_are_those_of_the_list(values: list[float], percent: int) -> None:
    histogram = filled(values)
    exact = sorted(values)[ceil(len(values) * percent / 100) - 1]
    assert histogram.p(percent) == pytest.approx(exact, rel=2e-3)
    assert histogram.max == pytest.approx(max(values), rel=2e-3)
    assert histogram.count == len(values)


@settings(max_examples=30)
@given(st.lists(SECONDS, max_size=20), st.lists(SECONDS, max_size=20))
def test_merged_ones_are_as_if_filled_together(one: list[float], other: list[float]) -> None:
    merged = filled(one)
    merged.merge(filled(other))
    assert merged.summary() == filled(one + other).summary()


def test_an_empty_one_knows_nothing() -> None:
    assert Histogram().document() == {
        "count": 0,
        "p50": None,
        "p99": None,
        "max": None,
        "outside": 0,
    }


def test_what_does_not_fit_is_counted_and_said() -> None:
    summary = filled([-1.0, 4000.0, 1.0]).summary()
    assert (summary.count, summary.outside) == (3, 2)
    assert summary.max == pytest.approx(3600, rel=2e-3)
    assert summary.p50 == pytest.approx(1.0, rel=2e-3)
