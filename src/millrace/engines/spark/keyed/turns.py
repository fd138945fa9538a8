"""Records on their way to their buckets: with the time of their partition before each.

A first operator looks at each partition by itself; only jobs with timers or with keys that expire
need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

#: What a row between the operators is.
RECORD, MARK = 0, 1
#: The columns that a record has on its way, as Spark's SQL declares them.
TURN = {
    "kind": "int",
    "bucket": "int",
    "source": "int",
    "position": "long",
    "state_key": "string",
    "time": "long",
    "before": "long",
    "bad": "boolean",
    "input": "int",
    "partition": "int",
    "key": "binary",
    "value": "binary",
    "times": "string",
}


def timed(
    batch: Any, source: int, mark: int | None, buckets: int
) -> tuple[Iterator[Any], int | None]:
    """Return a partition's records with the time before each, marks for buckets, and the mark."""
    if not batch["position"].is_monotonic_increasing:
        batch = batch.sort_values("position", ignore_index=True)
    good = ~batch["bad"].to_numpy(dtype=bool)
    times = batch["time"].to_numpy()
    if not good.any():
        return iter((batch[list(TURN)],)), mark
    first = times[good][0] if mark is None else mark
    seen = np.where(good, times, first)  # a malformed record has no time
    before = np.maximum.accumulate(np.concatenate(([first], seen[:-1])))
    after = int(max(before[-1], seen[-1]))
    marks = pd.DataFrame({"bucket": np.arange(buckets), "time": after})
    marks = marks.assign(kind=MARK, source=source, position=0, before=0, bad=False)
    marks = marks.assign(input=0, partition=0, state_key=None, key=None, value=None, times=None)
    return iter((batch.assign(before=before)[list(TURN)], marks[list(TURN)])), after
