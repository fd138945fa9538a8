"""Both operators of jobs with state per key, with their state in Spark's store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any

import orjson
import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from millrace.engines.spark.keyed.bucket import Stores
from millrace.engines.spark.keyed.pages import Pages
from millrace.engines.spark.keyed.turns import timed
from millrace.engines.spark.keyed.work import KeyedTask
from millrace.engines.spark.stored import StoredMap


class Timing(StatefulProcessor):
    """A group is a source: one partition of an input."""

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets

    def init(self, handle: Any) -> None:
        """Take the state."""
        self._mark = handle.getValueState("mark", "mark long")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ARG002
        rows: Iterable[Any],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Any]:
        """Give the records of a batch with their times."""
        known = self._mark.get()
        before = None if known is None else int(known[0])
        batch = pd.concat(list(rows), ignore_index=True)
        frames, mark = timed(batch, int(batch["source"].iloc[0]), before, self._buckets)
        yield from frames
        if mark is not None and mark != before:
            self._mark.update((mark,))

    def close(self) -> None:
        """Nothing to close."""


class Keeping(StatefulProcessor):
    """A group is a bucket of keys."""

    def __init__(self, task: KeyedTask) -> None:
        self._task = task

    def init(self, handle: Any) -> None:
        """Take the state."""
        self._pages = StoredMap(handle.getMapState("pages", "page int", "kept binary"), bytes)
        self._due = _Due(handle.getMapState("due", "source int, slot long", "keys binary"))
        self._least = StoredMap(handle.getMapState("least", "source int", "slot long"), int)
        self._work = self._task.work()

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ARG002
        rows: Iterable[Any],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Any]:
        """Give what a batch of the bucket's records comes to."""
        batch = pd.concat(list(rows), ignore_index=True)
        pages = Pages(self._pages)
        rows = self._work.done(batch, Stores(pages, self._due, self._least))
        pages.flush()
        yield rows

    def close(self) -> None:
        """Nothing to close."""


class _Due(MutableMapping[tuple[int, int], list[str]]):
    def __init__(self, state: Any) -> None:
        self._state = state

    def __getitem__(self, place: tuple[int, int]) -> list[str]:
        found = self._state.getValue(place)
        if found is None:
            raise KeyError(place)
        keys: list[str] = orjson.loads(bytes(found[0]))
        return keys

    def __setitem__(self, place: tuple[int, int], keys: list[str]) -> None:
        self._state.updateValue(place, (orjson.dumps(keys),))

    def __delitem__(self, place: tuple[int, int]) -> None:
        self._state.removeKey(place)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter([(int(key[0]), int(key[1])) for key in self._state.keys()])  # noqa: SIM118

    def __len__(self) -> int:
        return sum(1 for _ in self)
