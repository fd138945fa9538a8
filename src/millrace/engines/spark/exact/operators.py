"""Both parts as operators of Spark, with their state in its store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from millrace.engines.spark.exact.closing import Windows
from millrace.engines.spark.exact.counting import Numbered
from millrace.engines.spark.exact.function import FunctionTask
from millrace.engines.spark.exact.marking import Partition, Shape
from millrace.engines.spark.stored import StoredMap

#: How often windows are looked at that close by the clock.
TICK_MS = 200


class Marking(StatefulProcessor):
    """A group is a source: one partition of an input."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def init(self, handle: Any) -> None:
        """Take the state."""
        self._mark = handle.getValueState("mark", "mark long")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ARG002
        rows: Iterable[Any],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Any]:
        """Give what a batch comes to."""
        known = self._mark.get()
        batch = pd.concat(list(rows), ignore_index=True)
        source = int(batch["source"].iloc[0])
        partition = Partition(self._shape, source, None if known is None else int(known[0]))
        yield from partition.rows(batch)
        if partition.mark is not None:
            self._mark.update((partition.mark,))

    def close(self) -> None:
        """Nothing to close."""


class Closing(StatefulProcessor):
    """A group is a bucket of keys."""

    def __init__(
        self, shape: Shape, *, updates: bool, function: FunctionTask | None = None
    ) -> None:
        self._shape = shape
        self._updates = updates
        self._function = function

    def init(self, handle: Any) -> None:
        """Take the state."""
        self._handle = handle
        self._open = StoredMap(handle.getMapState("open", "begin long", "packet binary"), bytes)
        self._marks = StoredMap(handle.getMapState("marks", "source int", "mark long"), int)
        self._seen = StoredMap(handle.getMapState("seen", "source int", "at long"), int)
        self._had_rows: set[int] = set()
        self._finish = None
        if self._function is not None:
            totals = StoredMap(handle.getMapState("totals", "begin long", "packet binary"), bytes)
            self._finish = self._function.work(totals).results

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterable[Any],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Any]:
        """Give what a batch comes to."""
        self._had_rows.add(int(key[0]))
        batch = pd.concat(list(rows), ignore_index=True)
        yield from self._windows(timerValues).rows(batch)
        if self._shape.ticks and not list(self._handle.listTimers()):
            self._handle.registerTimer(_now(timerValues) + TICK_MS)

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: ARG002, N803
    ) -> Iterator[Any]:
        """Close what time closes, unless the batch had news; then look again."""
        if int(key[0]) not in self._had_rows:
            yield from self._windows(timerValues).tick()
        self._handle.registerTimer(_now(timerValues) + TICK_MS)

    def _windows(self, timers: Any) -> Windows:
        now = _now(timers) * 1000 if self._shape.ticks else 0
        return Windows(
            self._shape,
            self._open,
            self._marks,
            updates=self._updates,
            seen=self._seen,
            now=now,
            finish=self._finish,
        )

    def close(self) -> None:
        """Nothing to close."""


class Counting(StatefulProcessor):
    """A group is a source; its windows hold a number of records."""

    def __init__(self, shape: Shape, function: FunctionTask | None = None) -> None:
        self._shape = shape
        self._function = function

    def init(self, handle: Any) -> None:
        """Take the state."""
        self._finish = None if self._function is None else self._function.work().results
        self._counts = StoredMap(handle.getMapState("counts", "shard long", "packet binary"), bytes)
        self._open = StoredMap(handle.getMapState("open", "shard long", "packet binary"), bytes)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ARG002
        rows: Iterable[Any],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Any]:
        """Give what a batch comes to."""
        numbered = Numbered(self._shape, self._counts, self._open, self._finish)
        yield from numbered.rows(pd.concat(list(rows), ignore_index=True))

    def close(self) -> None:
        """Nothing to close."""


def _now(timers: Any) -> int:
    return int(timers.getCurrentProcessingTimeInMs())
