"""A database's query as a source: rows whose number is greater than the last one that was read."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import orjson

from millrace.engines.spark.outside.database import Database
from millrace.engines.spark.outside.feed import MOST_ROWS, Ends, Entry, Part, at_name, now

Connect = Callable[[], Database]


class Rows:
    """A feed with one part, whose positions count rows in the order of their numbers.

    Numbers are given out before a row can be seen, so a row may come after one with a greater
    number: a number counts only when it was seen `settles` seconds ago.
    """

    def __init__(self, name: str, connect: Connect, settles: float) -> None:
        self._name = name
        self._numbers = f"{name} numbers"
        self._connect = connect
        self._settles = settles
        #: When which number was the greatest, the oldest first.
        self._seen: deque[tuple[float, int]] = deque()
        self._frozen: int | None = None

    def begin(self) -> Ends:
        """Return the place before all rows."""
        return {self._name: {"0": 0}, self._numbers: {"0": -(2**63)}}

    def latest(self, start: Ends) -> Ends:
        """Return the greatest number that is settled, up to as many rows as a batch has."""
        at = start[self._numbers]["0"]
        with self._connect() as database:
            last = database.last(at, MOST_ROWS)
            settled = self._settled(last)
            if self._frozen is not None and last is not None:
                settled = min(last, self._frozen)
            if settled is None or settled <= at:
                return start
            count = start[self._name]["0"] + database.count(at, settled)
        return {
            self._name: {"0": count},
            self._numbers: {"0": settled},
            at_name(self._name): {"0": now()},
        }

    def freeze(self) -> None:
        """Take the rows that are there now, settled or not."""
        with self._connect() as database:
            self._frozen = database.last(-(2**63), 2**31)

    def _settled(self, last: int | None) -> int | None:
        if not self._settles:
            return last
        time_ = time.monotonic()
        if last is not None:
            self._seen.append((time_, last))
        settled = None
        while self._seen and self._seen[0][0] <= time_ - self._settles:
            settled = self._seen[0][1]
            if len(self._seen) > 1 and self._seen[1][0] <= time_ - self._settles:
                self._seen.popleft()
            else:
                break
        return settled

    def parts(self, start: Ends, end: Ends) -> Sequence[Part]:
        """Return the rows between."""
        about = {"after": start[self._numbers]["0"], "last": end[self._numbers]["0"]}
        if about["after"] == about["last"]:
            return []
        return [Part(0, start[self._name]["0"], about, end[at_name(self._name)]["0"])]

    def records(self, part: Part) -> Iterator[Entry]:
        """Return the rows as JSON."""
        with self._connect() as database:
            rows = database.rows(part.about["after"], part.about["last"])
            for position, row in enumerate(rows, part.first):
                yield Entry(position, orjson.dumps(row, default=str), part.at)
