"""A database's query as a source: rows whose number is greater than the last one that was read."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from millrace.engines.spark.outside.database import Database
from millrace.engines.spark.outside.feed import (
    MOST_ROWS,
    Ends,
    Entry,
    Part,
    SourceFailed,
    at_name,
    now,
)
from millrace.engines.spark.outside.values import json_of

Connect = Callable[[], Database]
T = TypeVar("T")
#: How often a database is asked for more, and whether all of its rows have numbers, in seconds.
LOOKS, CHECKS = 1.0, 60.0
#: The number before all others.
_BEFORE = -(2**63)


class Rows:
    """A feed with one part, whose positions are the rows' own numbers.

    So a row has the same position when a batch runs again, whatever was deleted meanwhile. Numbers
    are given out before a row can be seen, so a row may come after one with a greater number: a
    number counts only when it was seen `settles` seconds ago.
    """

    def __init__(
        self,
        name: str,
        connect: Connect,
        settles: float,
        *,
        looks: float = LOOKS,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`looks` is how many seconds lie between two looks at least; `pause` waits."""
        self._name = name
        self._numbers = f"{name} numbers"
        self._connect = connect
        self._settles = settles
        self._looks = looks
        self._pause = pause
        self._database: Database | None = None
        self._looked = self._checked = -float("inf")
        #: When which number was the greatest, the oldest first.
        self._seen: deque[tuple[float, int]] = deque()
        self._frozen: int | None = None

    def begin(self) -> Ends:
        """Return the place before all rows."""
        return {self._name: {"0": 0}, self._numbers: {"0": _BEFORE}}

    def latest(self, start: Ends) -> Ends:
        """Return the greatest number that is settled, up to as many rows as a batch has."""
        if self._frozen is None and time.monotonic() < self._looked + self._looks:
            return start
        at = start[self._numbers]["0"]
        last = self._asked(lambda database: database.last(at, MOST_ROWS))
        self._looked = time.monotonic()
        settled = self._settled(last)
        if self._frozen is not None:
            settled = None if last is None else min(last, self._frozen)
        if settled is None or settled <= at:
            return start
        until = settled
        count = self._asked(lambda database: database.count(at, until))
        if count >= MOST_ROWS:
            self._looked = -float("inf")  # there is more, at once
        return {
            self._name: {"0": start[self._name]["0"] + count},
            self._numbers: {"0": until},
            at_name(self._name): {"0": now()},
        }

    def freeze(self) -> None:
        """Take the rows that are there now, those in the making included."""
        last = self._asked(lambda database: database.last(_BEFORE, 2**31))
        self._frozen = _BEFORE if last is None else last
        self._pause(self._settles)

    def _asked(self, ask: Callable[[Database], T]) -> T:
        """What the database says, by a connection that is kept; one that broke is made anew."""
        kept = self._database
        if kept is not None and not kept.stale:
            try:
                return self._told(kept, ask)
            except SourceFailed:
                raise
            except Exception:  # of several libraries; a fresh connection tells it again
                kept.close()
        elif kept is not None:
            kept.close()
        self._database = self._connect()
        return self._told(self._database, ask)

    def _told(self, database: Database, ask: Callable[[Database], T]) -> T:
        if time.monotonic() >= self._checked + CHECKS:
            database.check()
            self._checked = time.monotonic()
        return ask(database)

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

    def close(self) -> None:
        """Close the connection that is kept."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def parts(self, start: Ends, end: Ends) -> Sequence[Part]:
        """Return the rows between."""
        about = {"after": start[self._numbers]["0"], "last": end[self._numbers]["0"]}
        if about["after"] == about["last"]:
            return []
        return [Part(0, about["after"] + 1, about, end[at_name(self._name)]["0"])]

    def records(self, part: Part) -> Iterator[Entry]:
        """Return the rows as JSON."""
        before = None
        with self._connect() as database:
            for row in database.rows(part.about["after"], part.about["last"]):
                number = database.number(row[database.by])
                if number == before:
                    raise SourceFailed(
                        f"`by: {database.by}` has {number} twice, so rows can't be told apart: "
                        "name a column in which each number comes once"
                    )
                before = number
                yield Entry(number, json_of(row), part.at)
