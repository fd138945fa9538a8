"""Lets the user's code work on a bucket's batch, and makes rows of what it returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import orjson
import pandas as pd

from millrace.engines.spark.fate import MALFORMED, USED
from millrace.engines.spark.keyed.bucket import Bucket, Program, Stores, Turn
from millrace.engines.spark.keyed.turns import MARK
from millrace.engines.spark.map_worker import MapTask, Work
from millrace.engines.spark.seats import PARTITIONS

#: What comes out, as Spark's SQL declares it; the same as of `map` jobs.
COLUMNS = {
    "out": "int",
    "value": "binary",
    "result_key": "string",
    "fate": "int",
    "cause": "string",
    "index": "int",
    "input": "int",
    "partition": "int",
    "position": "long",
    "key": "binary",
    "payload": "binary",
    "times": "string",
}
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class KeyedTask:
    """What a worker must know: how records are read and written, and the code with its state."""

    map: MapTask
    program: Program

    def work(self) -> KeyedWork:
        """Return what works in a worker."""
        return KeyedWork(self.map.work(), self.program)


class KeyedWork:
    """A worker's own part: readers and writers made once."""

    def __init__(self, work: Work, program: Program) -> None:
        self._work = work
        self._program = program

    def done(self, batch: Any, stores: Stores) -> Any:
        """Return the rows of a batch."""
        kinds = batch["kind"].to_numpy()
        told = batch[kinds == MARK]
        marks = dict(zip(told["source"].tolist(), told["time"].tolist(), strict=True))
        bucket = Bucket(self._program, stores, cache(_key_of), self._work.made)
        rows = list(self._records(batch[kinds != MARK], bucket))
        for key, mark in bucket.overdue(marks):
            rows += self._timers(bucket, key, mark)
        bucket.keep()
        return _frame(rows)

    def _records(self, batch: Any, bucket: Bucket) -> Iterator[Row]:
        order = np.lexsort((batch["position"].to_numpy(), batch["source"].to_numpy()))
        names = (
            "state_key", "source", "time", "before", "bad",
            "input", "partition", "position", "key", "value", "times",
        )  # fmt: skip
        columns = [batch[name].to_numpy()[order].tolist() for name in names]
        for key, source, time, before, bad, *about in zip(*columns, strict=True):
            reader, *_, value, times = about
            record = None if bad else self._work.read(reader, value)
            if record is None:
                yield (0, None, None, MALFORMED, None, 0, *about[:4], value, times)
                continue
            yield from self._timers(bucket, key, before)
            turn = Turn(key, source, time, before, record)
            made = self._work.tried(partial(bucket.take, turn))
            for index, (out, data, result_key, fate, cause) in enumerate(made):
                payload = None if fate == USED else value
                yield (out, data, result_key, fate, cause, index, *about[:4], payload, times)

    def _timers(self, bucket: Bucket, key: str, mark: int) -> Iterator[Row]:
        """The results of a key's timers; they come from no record.

        One that failed has a letter with the key: an input's, though of no position.
        """
        for source, call in bucket.timers(key, mark):
            for out, data, result_key, fate, cause in self._work.tried(call):
                if fate == USED:
                    yield (out, data, result_key, fate, cause, *(None,) * 7)
                else:
                    about = (source // PARTITIONS, None, None, None, key.encode(), None)
                    yield (out, None, None, fate, f"timer: {cause}", None, *about)


def _key_of(text: str) -> Mapping[str, Any]:
    found: dict[str, Any] = orjson.loads(text)
    return found


def _frame(rows: list[Row]) -> Any:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(COLUMNS)
    return pd.DataFrame(
        {
            name: pd.Series(values, dtype=object)
            for name, values in zip(COLUMNS, columns, strict=True)
        }
    )
