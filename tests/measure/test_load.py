"""Records are due by the clock, whoever is slow."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.measure.load import Load, paced
from millrace.measure.stamp import Stamp, read_stamp

START = 1_700_000_000.0


class Time:
    """A clock that goes on only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = START
        self.slept = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        self.slept += seconds


def stamp_of(value: bytes | None) -> Stamp:
    stamp = read_stamp(value)
    assert stamp is not None
    return stamp


@given(st.integers(1, 5000), st.integers(0, 60), st.lists(st.floats(0, 3), max_size=8))
def test_due_times_never_drift(rate: int, count: int, stalls: list[float]) -> None:
    time = Time()
    delays = iter(stalls)
    records = paced("run", 0, rate, count / rate, 10, 1, 100, clock=time, sleep=time.sleep)
    number = -1
    for number, record in enumerate(records):
        stamp = stamp_of(record.value)
        due = START + number / rate
        assert stamp.seq == number
        assert stamp.sent == round(due * 1_000_000)
        assert time.now >= due - 1e-6  # never early
        time.now += next(delays, 0.0)  # the taker is slow, at first
    assert number == count - 1


def test_a_stall_is_caught_up_at_once() -> None:
    time = Time()
    records = paced("run", 0, 10, 2, 10, 1, 100, clock=time, sleep=time.sleep)
    next(records)
    time.now += 1.0
    slept = time.slept
    for _ in range(10):
        next(records)
    assert time.slept == slept
    next(records)
    assert time.slept == pytest.approx(slept + 0.1, abs=1e-5)


def test_the_seed_and_the_writer_choose_the_keys() -> None:
    def keys(writer: int, seed: int) -> list[str]:
        time = Time()
        made = paced("run", writer, 100, 1, 7, seed, 100, clock=time, sleep=time.sleep)
        return [stamp_of(record.value).key for record in made]

    assert keys(0, 1) == keys(0, 1)
    assert keys(0, 1) != keys(0, 2)
    assert keys(0, 1) != keys(1, 1)
    assert set(keys(0, 1)) == {f"k{number}" for number in range(7)}


@pytest.mark.parametrize(
    ("rate", "seconds", "keys", "size"),
    [(0, 1, 1, 1), (1, -1, 1, 1), (1, 1, 0, 1), (1, 1, 1, -1), (math.nan, 1, 1, 1),
     (math.inf, 1, 1, 1), (1e9, 1e9, 1, 1)],
)  # fmt: skip
def test_a_load_that_makes_no_sense_is_refused(
    rate: float, seconds: float, keys: int, size: int
) -> None:
    with pytest.raises(ValueError, match=r"above 0|too many"):
        Load(rate, seconds, keys, size)
