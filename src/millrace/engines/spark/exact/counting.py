"""Windows that hold a number of records: one part only, for a partition knows all of it.

A record's place among those of its key in its partition stands for its time. So a window is one
of `length` places, and full when it has as many rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np
import pandas as pd

from millrace.engines.spark.exact.closing import Finish, after, results_of
from millrace.engines.spark.exact.marking import ABOUT, LETTER, Shape, whole
from millrace.engines.spark.exact.partials import merged, of_records, restored, stored
from millrace.engines.spark.exact.spans import starts
from millrace.engines.spark.fate import MALFORMED


class Numbered:
    """The windows of one partition; what is kept of keys is kept by shard."""

    def __init__(
        self,
        shape: Shape,
        counts: MutableMapping[int, bytes],
        opened: MutableMapping[int, bytes],
        finish: Finish | None = None,
    ) -> None:
        self._finish = finish
        self._shape = shape
        self._counts = counts
        self._open = opened

    def rows(self, batch: Any) -> Iterator[Any]:
        """Give the windows that a batch fills."""
        if not batch["position"].is_monotonic_increasing:
            batch = batch.sort_values("position", ignore_index=True)
        bad = batch["bad"].to_numpy(dtype=bool)
        if bad.any():
            letters = batch[bad][list(ABOUT)].assign(kind=LETTER, fate=MALFORMED)
            yield whole(letters, after(self._shape))
            batch = batch[~bad]
        keys, codes = _keys(batch)
        shards = np.array([zlib.crc32(key.encode()) % self._shape.buckets for key in keys])
        for shard in np.unique(shards):
            here = batch[shards[codes] == shard].reset_index(drop=True)
            full = self._filled(int(shard), here)
            if len(full):
                results = results_of(self._shape.layout, full, self._finish)
                yield whole(results, after(self._shape))

    def _filled(self, shard: int, batch: Any) -> Any:
        """Add records to the windows of a shard; return those that are full."""
        shape, known = self._shape, self._open.get(shard)
        places = self._places(shard, batch)
        tables = [] if known is None else [restored(known)]
        for _, inside, begins in starts(places, shape.length, shape.slide):
            there = begins >= 0  # no window begins before the first record
            if there.any():
                records, begin = batch.iloc[inside[there]], begins[there]
                tables.append(of_records(shape.layout, records, begin, begin + shape.length))
        table = merged(shape.layout, tables)
        full = table["rows"].to_numpy() == shape.length
        self._open[shard] = stored(table[~full])
        return table[full]

    def _places(self, shard: int, batch: Any) -> Any:
        """The place of each record among those of its key; the counts go on."""
        known = self._counts.get(shard)
        counts: dict[str, int] = {}
        if known is not None:
            table = restored(known)
            counts = dict(zip(table["key"], table["count"].tolist(), strict=True))
        keys, codes = _keys(batch)
        before = np.array([counts.get(key, 0) for key in keys], dtype=np.int64)
        within = batch.groupby(codes).cumcount().to_numpy()
        more = np.bincount(codes, minlength=len(keys))
        counts |= {key: int(was + new) for key, was, new in zip(keys, before, more, strict=True)}
        self._counts[shard] = stored(
            pd.DataFrame({"key": list(counts), "count": list(counts.values())})
        )
        return before[codes] + within


def _keys(batch: Any) -> tuple[list[str], Any]:
    """The keys of a batch, and which of them each record has."""
    codes, known = pd.factorize(batch["key"].to_numpy(), use_na_sentinel=False)
    return [key or "" for key in known], codes
