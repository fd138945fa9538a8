"""When a thing that failed may be tried again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millrace.agent.backoff import FIRST_SECONDS, HEALTHY_SECONDS, MOST_SECONDS, Backoff


def test_at_once_then_later_and_later() -> None:
    backoff = Backoff()
    assert backoff.may(0.0)
    waits = []
    for _ in range(12):
        backoff.failed(100.0)
        waits.append(backoff.not_before - 100.0)
    assert waits[:5] == [0.0, 1.0, 2.0, 4.0, 8.0]
    assert waits == sorted(waits)
    assert waits[-1] == MOST_SECONDS


def test_it_may_not_before_its_time() -> None:
    backoff = Backoff()
    backoff.failed(100.0)
    backoff.failed(100.0)
    assert not backoff.may(100.0 + FIRST_SECONDS - 0.01)
    assert backoff.may(100.0 + FIRST_SECONDS)


def test_what_ran_long_enough_has_recovered() -> None:
    for ran, failures in ((HEALTHY_SECONDS, 4), (HEALTHY_SECONDS + 1, 1)):
        backoff = Backoff()
        for _ in range(3):
            backoff.failed(50.0)
        backoff.started(100.0)
        backoff.failed(100.0 + ran)
        assert backoff.failures == failures


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 300)), max_size=60))
def test_a_wait_has_its_bounds(events: list[tuple[bool, float]]) -> None:
    backoff, now = Backoff(), 1.0
    for starts, passed in events:
        now += passed
        if starts:
            backoff.started(now)
        else:
            backoff.failed(now)
            assert now <= backoff.not_before <= now + MOST_SECONDS
            assert backoff.may(now + MOST_SECONDS)
            assert backoff.may(now) == (backoff.failures == 1)
