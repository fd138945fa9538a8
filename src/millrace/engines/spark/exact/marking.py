"""The first part: looks at one partition of an input, in the order of positions.

It knows the greatest time of all earlier positions, and so which records are late. Of the others it
gives partial aggregates, and to every bucket of the second part how far the partition is.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from millrace.engines.spark.exact.partials import Layout, of_records
from millrace.engines.spark.exact.spans import sessions, starts
from millrace.engines.spark.fate import LATE, MALFORMED

#: What a row between the operators, or after them, is.
PARTIAL, MARK, LETTER, RESULT = 0, 1, 2, 3
#: Of a record that may become a dead letter.
ABOUT = {
    "reader": "int",
    "partition": "int",
    "position": "long",
    "record_key": "binary",
    "payload": "binary",
    "times": "string",
    "cause": "string",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """What both operators must know of a window; times in microseconds."""

    layout: Layout
    length: int
    slide: int
    gap: int | None
    lateness: int
    keep: bool
    #: The sources: one for each partition of each input.
    sources: tuple[int, ...]
    buckets: int
    #: Whether it goes by the wall clock: a partition without news is as late as that.
    wallclock: bool = False
    #: After how long a silent partition holds windows back no more.
    idle: int | None = None

    @property
    def ticks(self) -> bool:
        """Whether windows may close though no record comes."""
        return self.wallclock or self.idle is not None

    def between(self) -> dict[str, str]:
        """Return the columns of the rows between the two operators."""
        own = {"kind": "int", "bucket": "int", "source": "int", "mark": "long", "late": "long"}
        return {**own, **self.layout.columns(), **ABOUT, "fate": "int"}


class Partition:
    """One partition of an input; `mark` is the greatest time that it has seen."""

    def __init__(self, shape: Shape, source: int, mark: int | None) -> None:
        self._shape = shape
        self._source = source
        self.mark = mark

    def rows(self, batch: Any) -> Iterator[Any]:
        """Give what a batch of records comes to."""
        if not batch["position"].is_monotonic_increasing:
            batch = batch.sort_values("position", ignore_index=True)
        if self._shape.wallclock:
            batch = self._by_the_clock(batch)
        bad = batch["bad"].to_numpy(dtype=bool)
        if bad.any():
            yield self._letters(batch[bad], MALFORMED)
            batch = batch[~bad]
        if self._shape.wallclock:
            yield self._marks(0)  # also of records that are all malformed: it is so far
        elif len(batch):
            late, self.mark = marked(batch["time"].to_numpy(), self.mark, self._shape.lateness)
            if late.any() and self._shape.keep:
                yield self._letters(batch[late], LATE)
            batch = batch[~late] if late.any() else batch
            yield self._marks(int(late.sum()))
        if len(batch):
            yield from self._partials(batch)

    def _by_the_clock(self, batch: Any) -> Any:
        """The batch with times that only grow: a broker's clock does, that of writers may not."""
        times = batch["time"].to_numpy()
        first = times[0] if self.mark is None else self.mark
        grown = np.maximum.accumulate(np.concatenate(([first], times)))[1:]
        self.mark = int(grown[-1])
        return batch.assign(time=grown)

    def _partials(self, batch: Any) -> Iterator[Any]:
        shape = self._shape
        times = batch["time"].to_numpy()
        if shape.gap is not None:
            yield self._rows(in_sessions(shape.layout, batch, times, shape.gap))
            return
        for overlap, chosen, begin in starts(times, shape.length, shape.slide):
            records = batch if len(chosen) == len(batch) else batch.iloc[chosen]
            table = of_records(shape.layout, records, begin, begin + shape.length)
            yield self._rows(table, last=overlap == 0)

    def _rows(self, table: Any, *, last: bool = True) -> Any:
        """Partial aggregates; of records whose last window it is `late` has the number.

        So many come too late for all of their windows if this one is closed already.
        """
        table["kind"], table["source"] = PARTIAL, self._source
        table["late"] = table["rows"] if last else 0
        table["bucket"] = bucket(table["key"], self._shape.buckets)
        return whole(table, self._shape.between())

    def _marks(self, late: int) -> Any:
        buckets = np.arange(self._shape.buckets)
        columns = {
            "kind": MARK,
            "bucket": buckets,
            "source": self._source,
            "mark": self.mark,
            "late": np.where(buckets == 0, late, 0),
        }
        return whole(pd.DataFrame(columns), self._shape.between())

    def _letters(self, batch: Any, fate: int) -> Any:
        letters = batch[list(ABOUT)].assign(kind=LETTER, bucket=0, fate=fate)
        return whole(letters, self._shape.between())


def whole(frame: Any, columns: Mapping[str, str]) -> Any:
    """Return the frame with all columns.

    Numbers that it lacks are 0: pandas would make fractions of whole numbers with gaps.
    """
    numbers = ("int", "long", "double")
    blank = {
        name: 0 if kind in numbers else None
        for name, kind in columns.items()
        if name not in frame.columns
    }
    return frame.assign(**blank)[list(columns)]


def marked(times: Any, known: int | None, lateness: int) -> tuple[Any, int]:
    """Return which records are late, and the greatest time after them."""
    first = times[0] if known is None else known
    before = np.maximum.accumulate(np.concatenate(([first], times[:-1])))
    return times < before - lateness, int(max(before[-1], times[-1]))


def in_sessions(layout: Layout, batch: Any, times: Any, gap: int) -> Any:
    """Return the table of the sessions that records make among themselves."""
    codes, _ = pd.factorize(batch["key"].to_numpy(), use_na_sentinel=False)
    order = np.lexsort((times, codes))
    batch, times, codes = batch.iloc[order], times[order], codes[order]
    numbers = sessions(codes, times, times + gap)
    firsts = np.concatenate(([0], np.flatnonzero(np.diff(numbers)) + 1))
    lasts = np.concatenate((firsts[1:] - 1, [len(times) - 1]))
    return of_records(layout, batch, times[firsts][numbers], times[lasts][numbers] + gap)


def bucket(keys: Any, buckets: int) -> Any:
    """Return the bucket of each key, the same in every process."""
    codes, known = pd.factorize(keys.to_numpy(), use_na_sentinel=False)
    places = [zlib.crc32((key or "").encode()) % buckets for key in known]
    return np.array(places, dtype=np.int32)[codes]
