from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given

from millrace.model.quantity import Duration, Rate, Records, Size
from tests.strategies import QUANTITIES


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10 s", Duration(10**10)),
        ("10s", Duration(10**10)),
        ("1.5 min", Duration(90 * 10**9)),
        ("500 us", Duration(500_000)),
        ("7 d", Duration(7 * 86_400 * 10**9)),
        ("64 MB", Size(64 * 10**6)),
        ("1 GiB", Size(2**30)),
        ("200 Mbit", Size(25 * 10**6)),
        ("3", Records(3)),
        ("1 record", Records(1)),
        ("100/s", Rate(Records(100), Duration(10**9))),
        ("1 / 2 ms", Rate(Records(1), Duration(2 * 10**6))),
        ("400 MB/s", Rate(Size(4 * 10**8), Duration(10**9))),
    ],
)
def test_quantities_are_read_exactly(text: str, value: Any) -> None:
    assert type(value).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Duration, "10"),
        (Duration, "10 sec"),
        (Duration, "-1 s"),
        (Duration, "0.1 ns"),
        (Duration, "10 s\n"),
        (Duration, "१० s"),
        (Duration, "9" * 40 + " s"),
        (Size, "1 bit"),
        (Size, "0.5 B"),
        (Size, "1 kbi"),
        (Size, "3 kbit/s"),
        (Size, "0.001 kbit"),
        (Records, "1.5"),
        (Records, "three"),
        (Rate, "100"),
        (Rate, "1/0 s"),
        (Rate, "x/s"),
        (Rate, "1/2/s"),
    ],
)
def test_what_is_no_quantity_is_not_read(kind: Any, text: str) -> None:
    assert kind.parse(text) is None


@pytest.mark.parametrize("kind", list(QUANTITIES))
def test_a_quantity_reads_back_from_its_text(kind: Any) -> None:
    @given(QUANTITIES[kind])
    def same(value: Any) -> None:
        assert kind.parse(str(value)) == value

    same()


def test_texts_use_the_greatest_exact_unit() -> None:
    assert str(Duration(90 * 10**9)) == "90 s"
    assert str(Duration(120 * 10**9)) == "2 min"
    assert str(Duration(0)) == "0 ns"
    assert str(Size(0)) == "0 B"
    assert str(Size(2048)) == "2 KiB"
    assert str(Records(1)) == "1 record"
    assert str(Rate(Records(1), Duration(2 * 10**6))) == "1 / 2 ms"


def test_rates_are_exact() -> None:
    assert Rate(Records(1), Duration(3 * 10**9)).per_second == Fraction(1, 3)
    assert Rate(Size(5), Duration(10**9)).per_second == 5
