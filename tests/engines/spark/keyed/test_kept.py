"""What is kept of a key comes back as it was, or is refused while the record can still be told."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.engines.spark.keyed.bucket import moment
from millrace.engines.spark.keyed.kept import Kept, check_kept, fields_of, read, written
from millrace.engines.spark.keyed.pages import Pages
from millrace.errors import OperationFailed

HASHABLE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.dates()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.integers(0, 2**40).map(moment)
)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.sets(HASHABLE, max_size=3)
        | st.frozensets(HASHABLE, max_size=3)
        | st.dictionaries(HASHABLE, inner, max_size=3)
        | st.dictionaries(st.sampled_from(["$set", "$time", "x"]), inner, max_size=2)
    ),
    max_leaves=8,
)


def again(state: Any) -> Any:
    """Return state as it comes back from a page."""
    kept: dict[int, bytes] = {}
    for key in ("a", "b"):
        pages = Pages(kept)
        pages[key] = written(Kept(state, [], 0, 0))
        pages.flush()
    return read(Pages(kept)["a"], dict, None).state


@given(state=st.dictionaries(st.text(max_size=3), VALUES, max_size=4))
def test_values_come_back_as_they_were(state: dict[str, Any]) -> None:
    check_kept(state, None)
    found = again(state)
    assert (found, repr(found)) == (state, repr(state)) or _same(found, state)


def _same(one: Any, other: Any) -> bool:
    """Whether values are equal and of the same types; sets are printed in any order."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        pairs = zip(one.items(), other.items(), strict=True)
        return len(one) == len(other) and all(_same(a, b) for a, b in pairs)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def test_no_number_and_infinity_are_kept() -> None:
    found = again({"x": math.nan, "y": -math.inf})
    assert math.isnan(found["x"])
    assert found["y"] == -math.inf


class Trip:
    """Declares what it keeps, and may set more."""

    seen: set[str]
    price: Decimal = Decimal(0)
    since: date | None = None
    length: timedelta = timedelta(0)

    def __init__(self) -> None:
        """Begin with nothing."""
        self.seen = set()


def test_a_field_that_is_not_declared_is_told_at_once() -> None:
    trip: Any = Trip()
    trip.seen.add("x")
    fields = fields_of(Trip)
    check_kept(trip, fields)
    trip.helper = 1
    with pytest.raises(TypeError, match="`helper: TYPE` in Trip"):
        check_kept(trip, fields)


def test_fields_that_a_fresh_object_has_are_defaults() -> None:
    @dataclass
    class Counted:
        counts: dict[str, int] = field(default_factory=dict)
        more: int = 0

    for kind, names in (
        (Trip, {"seen", "price", "since", "length"}),
        (Counted, {"counts", "more"}),
    ):
        fields = fields_of(kind)
        assert fields is not None
        assert fields.defaults == names
    later = read(written(Kept({}, [], 0, 0)), Trip, fields_of(Trip)).state
    assert later.seen == set(), "a new field has what __init__ gives it"


def test_classes_that_can_hold_no_state_of_a_key_are_refused() -> None:
    class Shared:
        seen: list[int] = []  # noqa: RUF012 - what a user may write

    class Asks:
        def __init__(self, what: str) -> None:
            self.what = what

    for kind, code in ((Shared, "shared-state"), (Asks, "no-state-class")):
        with pytest.raises(OperationFailed) as told:
            fields_of(kind)
        assert told.value.code == code


def test_pages_forget_what_is_taken_away() -> None:
    kept: dict[int, bytes] = {}
    pages = Pages(kept)
    for number in range(100):
        pages[f"k{number}"] = {"n": number}
    pages.flush()
    assert len(Pages(kept)) == 100
    pages = Pages(kept)
    for key in list(pages):
        del pages[key]
    pages.flush()
    assert kept == {}
