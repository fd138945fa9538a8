"""Totals of sliding windows, from which those of the next windows are made.

A total is kept with the records that leave it. The ones of the windows with one beginning are kept
together, until those of the next are made of them; what no later window needs is gone then.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson
import pandas as pd

from millrace.engines.spark.exact.held import Held, packed, unpacked
from millrace.engines.spark.exact.partials import restored, stored
from millrace.engines.spark.keyed.kept import plain
from millrace.engines.spark.keyed.kept import restored as value_of


class Sliding(Protocol):
    """What must be known of the windows."""

    @property
    def slide(self) -> int:
        """How far they slide, in microseconds."""
        ...

    @property
    def length(self) -> int:
        """How long they are."""
        ...

    @property
    def version(self) -> str:
        """Which code makes the totals."""
        ...


@dataclass(slots=True)
class Totals:
    """The totals of windows that begin together."""

    task: Sliding
    kept: MutableMapping[int, bytes]
    begin: int
    _known: dict[str, tuple[bytes, int, bytes]] = field(init=False)
    _made: dict[str, tuple[bytes, int, bytes]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Find what is known of the windows before."""
        data = self.kept.get(self.begin - self.task.slide)
        self._known = {}
        if data is not None:
            rows = restored(data).itertuples(index=False, name=None)
            self._known = {
                key: (total, count, leaving)
                for key, version, total, count, leaving in rows
                if version == self.task.version
            }

    def before(self, key: str, records: list[Held]) -> tuple[Any, list[Held], list[Held]]:
        """Return the total of the window before, what leaves it and what enters this one.

        Nothing, and all records, where it is not known, or does not have what this window shares
        with it: a record may have come after that window was closed.
        """
        if key not in self._known:
            return None, [], records
        data, count, left = self._known[key]
        ended = self.begin - self.task.slide + self.task.length
        leaving, entering = unpacked(left), [r for r in records if r.time >= ended]
        if count - len(leaving) + len(entering) != len(records):
            return None, [], records
        return value_of(orjson.loads(data)), leaving, entering

    def add(self, key: str, total: Any, records: list[Held]) -> None:
        """Note the total of a window of these records."""
        after = self.begin + self.task.slide
        leaving = packed(record for record in records if record.time < after)
        self._made[key] = (orjson.dumps(plain(total)), len(records), leaving)

    def keep(self) -> None:
        """Keep what was noted, and forget what is older."""
        for begin in [begin for begin in self.kept if begin < self.begin]:
            del self.kept[begin]
        rows = [(key, self.task.version, *made) for key, made in self._made.items()]
        names = ["key", "version", "total", "count", "leaving"]
        if rows:
            self.kept[self.begin] = stored(pd.DataFrame(rows, columns=names))
