"""Windows of a number of records, in a partition and key by key, wherever batches end."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.engines.spark.exact.aggregates import parsed
from millrace.engines.spark.exact.counting import Numbered
from millrace.engines.spark.exact.marking import ABOUT, LETTER, RESULT, Shape
from millrace.engines.spark.exact.partials import Layout
from tests.engines.spark.exact import CUTS

LAYOUT = Layout(parsed("j", {"rows": "count(*)", "sum": "sum(v)"}), ("long",))
Record = tuple[str, int]


def shape(length: int, slide: int) -> Shape:
    return Shape(LAYOUT, length, slide, None, 0, keep=False, sources=(0,), buckets=3)


def frame(first: int, records: list[Record]) -> Any:
    return pd.DataFrame(
        {
            "bad": [key == "bad" for key, _ in records],
            "time": 0,
            "key": [key for key, _ in records],
            "a0": [value for _, value in records],
            "v0": True,
            **dict.fromkeys(ABOUT),
            "position": range(first, first + len(records)),
        }
    )


def oracle(records: list[Record], length: int, slide: int) -> dict[tuple[str, int], int]:
    """The sum of each full window, by key and the place of its first record."""
    held: dict[str, list[int]] = defaultdict(list)
    for key, value in records:
        held[key].append(value)
    return {
        (key, begin): sum(values[begin : begin + length])
        for key, values in held.items()
        if key != "bad"
        for begin in range(0, len(values) - length + 1, slide)
    }


@pytest.mark.parametrize(("length", "slide"), [(3, 3), (3, 2), (1, 1), (4, 1), (2, 5)])
@settings(max_examples=CUTS)
@given(data=st.data())
def test_full_windows_are_those_of_the_oracle(length: int, slide: int, data: Any) -> None:
    key = st.sampled_from(["a", "b", "c", "bad"])
    records = data.draw(st.lists(st.tuples(key, st.integers(-9, 9)), max_size=40))
    counts: dict[int, bytes] = {}
    opened: dict[int, bytes] = {}
    found: dict[tuple[str, int], int] = {}
    letters = at = 0
    while at < len(records):
        end = data.draw(st.integers(at + 1, len(records)))
        numbered = Numbered(shape(length, slide), counts, opened)
        for rows in numbered.rows(frame(at, records[at:end])):
            for row in rows.to_dict("records"):
                letters += row["kind"] == LETTER
                if row["kind"] == RESULT:
                    assert (row["r0"], row["end"] - row["begin"]) == (length, length)
                    assert (row["key"], row["begin"]) not in found
                    found[row["key"], row["begin"]] = row["r1"]
        at = end
    assert found == oracle(records, length, slide)
    assert letters == sum(key == "bad" for key, _ in records)
