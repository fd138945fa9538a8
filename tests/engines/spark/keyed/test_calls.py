"""The user's code with state: failures, retries, generators, timers of keys that move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from millrace.engines.spark.keyed.bucket import Bucket, Now, Program, Stores, Turn
from millrace.engines.spark.keyed.kept import fields_of

SECOND = 1_000_000
KEY = '{"k":"a"}'


class Beat:
    """Counts records; a second of silence later it tells."""

    n: int = 0

    def on_record(self, record: dict[str, Any], now: Now) -> Iterator[Any]:
        self.n += 1
        now.set_timer(timedelta(seconds=1))
        if record.get("last"):
            now.forget()
        yield self.n
        if record.get("bad"):
            raise ValueError(self.n)

    def on_timer(self, _: Now) -> Any:
        self.n += 10
        if self.n == 11 and Beat.fails:
            Beat.fails -= 1
            raise ValueError(self.n)
        return self.n

    fails = 0


class Plain:
    """Has no timers."""

    n: int = 0

    def on_record(self, _: dict[str, Any], now: Now) -> Any:
        self.n += 1
        now.set_timer(timedelta(0))


def stores() -> Stores:
    return Stores({}, {}, {})


def bucket(there: Stores, code: Callable[..., Any] = Beat) -> Bucket:
    """A bucket that makes lists of what the code returns."""
    program = Program(code, fields_of(code))
    return Bucket(program, there, lambda _: {"k": "a"}, lambda made: made if made is None or
                  isinstance(made, int) else list(made))  # fmt: skip


def turn(source: int, at: int, **record: Any) -> Turn:
    return Turn(KEY, source, at * SECOND, at * SECOND, record)


def fired(there: Stores, marks: dict[int, int]) -> list[Any]:
    """What timers give when the sources are so far."""
    now = bucket(there)
    far = {source: at * SECOND for source, at in marks.items()}
    found = [call() for key, mark in now.overdue(far) for _, call in now.timers(key, mark)]
    now.keep()
    return found


def test_timers_go_on_when_a_key_comes_from_another_source() -> None:
    there = stores()
    for source, at in ((0, 0), (1, 5)):
        now = bucket(there)
        now.take(turn(source, at))
        now.keep()
    assert fired(there, {0: 500}) == [], "its clock is that of its last record"
    assert fired(there, {1: 500}) == [12, 22]
    assert fired(there, {0: 900, 1: 900}) == []


def test_what_a_generator_does_is_part_of_the_call() -> None:
    there = stores()
    now = bucket(there)
    assert now.take(turn(0, 0)) == [1]
    with pytest.raises(ValueError, match="2"):
        now.take(turn(0, 1, bad=True))
    assert now.take(turn(0, 2)) == [2], "the state is as before the failure"
    now.take(turn(0, 3, last=True))
    now.keep()
    assert there.keys == {}, "it asked to be forgotten"


def test_a_timer_that_is_tried_again_works_on_the_state() -> None:
    there = stores()
    now = bucket(there)
    now.take(turn(0, 0))
    Beat.fails = 1
    ((_, call),) = list(now.timers(KEY, SECOND))
    with pytest.raises(ValueError, match="11"):
        call()
    assert call() == 11
    now.keep()
    again = bucket(there)
    assert again.take(turn(0, 9)) == [12]


def test_timers_need_code_that_takes_them() -> None:
    with pytest.raises(TypeError, match="on_timer"):
        bucket(stores(), Plain).take(turn(0, 0))


def test_many_keys_of_one_slot_are_written_once() -> None:
    class Counting(dict[tuple[int, int], list[str]]):
        writes = 0

        def __setitem__(self, place: tuple[int, int], keys: list[str]) -> None:
            Counting.writes += 1
            super().__setitem__(place, keys)

    there = Stores({}, Counting(), {})
    now = bucket(there)
    for number in range(500):
        now.take(Turn(f'{{"k":{number}}}', 0, 0, 0, {}))
    now.keep()
    assert (Counting.writes, len(there.due[0, 1])) == (1, 500)
