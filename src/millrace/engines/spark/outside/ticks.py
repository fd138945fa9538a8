"""A clock as a source: a record each time it is due."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

import orjson

from millrace.engines.spark.outside.feed import Ends, Entry, Part, at_name, now


class Ticks:
    """A feed with one part. What was due while nobody listened is one tick, not many."""

    def __init__(
        self, name: str, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._seconds = seconds
        self._clock = clock
        self._next: float | None = None
        self._frozen = False

    def begin(self) -> Ends:
        """Return the time before the first tick."""
        return {self._name: {"0": 0}}

    def latest(self, start: Ends) -> Ends:
        """Return the next tick when it is due; the first one is at once."""
        time_ = self._clock()
        if self._next is not None and (self._frozen or time_ < self._next):
            return start
        missed = 0 if self._next is None else (time_ - self._next) // self._seconds
        self._next = (time_ if self._next is None else self._next) + self._seconds * (missed + 1)
        return {self._name: {"0": start[self._name]["0"] + 1}, at_name(self._name): {"0": now()}}

    def freeze(self) -> None:
        """Give one tick and no more."""
        self._frozen = True

    def close(self) -> None:
        """Nothing is open between calls."""

    def parts(self, start: Ends, end: Ends) -> Sequence[Part]:
        """Return the tick between, if there is one."""
        first, after = start[self._name]["0"], end[self._name]["0"]
        return [Part(0, first, {}, end[at_name(self._name)]["0"])] if after > first else []

    def records(self, part: Part) -> Iterator[Entry]:
        """Return the tick as JSON."""
        at = datetime.fromtimestamp(part.at / 1e6, UTC)
        yield Entry(part.first, orjson.dumps({"tick": part.first, "at": at}), part.at)
