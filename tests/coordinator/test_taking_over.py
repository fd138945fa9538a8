"""Two coordinators on one state, as processes: one serves, and the other does nothing."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.coordinator.town import MORE, Town, document, town, until

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Town]:
    with town(tmp_path) as made:
        yield made


def test_a_second_is_refused_and_one_that_was_killed_is_followed_at_once(place: Town) -> None:
    first = place.up()
    place.applied(document("here"))
    second = place.up(wait=False)
    assert second.wait() == 1
    assert f"process {first.pid} at {socket.gethostname()}" in second.said
    assert place.effects(by=second.pid) == []
    before = place.runs("here")
    first.kill()
    killed = time.monotonic()
    third = place.up()
    assert time.monotonic() - killed < 5
    place.await_running()
    assert sorted(place.effects("start", by=third.pid)) == ["start here even", "start here half"]
    assert not set(before.values()) & set(place.runs("here").values())


def test_many_that_start_at_once_leave_one(place: Town) -> None:
    place.up().kill()
    many = [place.up(wait=False) for _ in range(4)]
    until(lambda: sum(one.alive for one in many) == 1, 30, lambda: [one.said for one in many])
    (left,) = (one for one in many if one.alive)
    left.await_said("the coordinator is up")
    place.applied(document("here"))
    for one in many:
        if one is not left:
            assert one.wait() == 1
            told = f"process {left.pid} at" in one.said or "another coordinator has" in one.said
            assert told, one.said
            assert place.effects(by=one.pid) == []


def test_one_that_slept_while_another_took_over_does_nothing_when_it_wakes(place: Town) -> None:
    first = place.up()
    place.applied(document("here"))
    place.stopped_between_commits(first)
    second = place.up()  # waits until the beat stood still for long
    place.await_running()
    runs, done = place.runs("here"), place.effects(by=first.pid)
    place.applied(document("here", MORE))
    first.signal(signal.SIGCONT)
    assert first.wait() == 1
    assert "another coordinator has taken over" in first.said
    assert place.effects(by=first.pid) == done
    assert {name: place.runs("here")[name] for name in runs} == runs
    assert second.alive
    place.await_running("even", "half", "third")


def test_one_that_wakes_refuses_a_change(place: Town) -> None:
    """Asked before it noticed by itself: nothing is kept, and nothing is said to be done."""
    place.limits |= {"coordinator.rounds.BEAT_SECONDS": 60.0}
    first = place.up()
    place.applied(document("here"))
    with place.client() as old:
        place.stopped_between_commits(first)
        place.limits |= {"coordinator.rounds.BEAT_SECONDS": 0.4}
        place.up()
        done = place.effects(by=first.pid)
        first.signal(signal.SIGCONT)
        with pytest.raises(Exception, match="another coordinator has taken over"):
            old.apply(document("here", MORE))
    assert place.effects(by=first.pid) == done
    with place.client() as client:
        assert client.pipeline("roads")["revision"] == 1
    first.kill()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_first_token_is_known_to_its_owner_after_a_crash(place: Town, moment: str) -> None:
    place.environment["MILLRACE_FAILPOINT"] = f"journal.event.{moment}#1"
    assert place.up(wait=False).wait() == -signal.SIGKILL
    place.environment.clear()
    place.up()
    place.applied(document("here"))
