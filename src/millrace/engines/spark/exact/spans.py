"""Which windows a time is in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def starts(times: Any, length: int, slide: int) -> Iterator[tuple[int, Any, Any]]:
    """Give (overlap, which records, the start of a window that each is in), the last window first.

    Windows begin at multiples of `slide`, counted from the epoch, and hold `length`.
    """
    last = np.floor_divide(times, slide) * slide
    for overlap in range(-(-length // slide)):
        begin = last - overlap * slide
        inside = np.flatnonzero(begin + length > times)
        if len(inside):
            yield overlap, inside, begin[inside]


def sessions(groups: Any, times: Any, until: Any) -> Any:
    """Return a number for each of some spans, equal for those of a group that touch.

    Spans are sorted by group and begin; each lasts from its time to before `until`.
    """
    if not len(times):
        return np.zeros(0, dtype=np.int64)
    same = groups[1:] == groups[:-1]
    reach = until
    if np.any(same & (until[1:] < until[:-1])):  # one span may hold others
        reach = until.copy()
        for at in np.flatnonzero(same) + 1:
            if times[at] < reach[at - 1]:
                reach[at] = max(reach[at], reach[at - 1])
    touch = same & (times[1:] < reach[:-1])
    return np.concatenate(([0], np.cumsum(~touch)))
