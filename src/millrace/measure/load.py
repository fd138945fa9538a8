"""An open-loop generator: records are due by the clock, however slow the other side is."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from millrace.measure.stamp import MOST, stamped
from millrace.ports import Record


@dataclass(frozen=True, slots=True)
class Load:
    """What to send: `rate` records a second over so many seconds, of so many keys."""

    rate: float
    seconds: float
    keys: int = 100
    size: int = 200
    seed: int = 1

    def __post_init__(self) -> None:
        if not (self.rate > 0 and self.seconds >= 0 and self.keys > 0 and self.size >= 0):
            raise ValueError(f"{self}: rate and keys must be above 0, the others not below")
        if not self.rate * self.seconds < MOST:
            raise ValueError(f"{self.rate}/s over {self.seconds} s are too many: {MOST} at most")

    @property
    def count(self) -> int:
        """Return how many records that makes."""
        return round(self.rate * self.seconds)


def paced(
    run: str,
    writer: int,
    rate: float,
    seconds: float,
    keys: int,
    seed: int,
    size: int,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Record]:
    """Yield each record when it is due: the `n`th `n / rate` seconds after the first.

    A record that is late, as its taker was slow, comes at once and keeps the time at which it was
    due: the wait counts as latency, and the load never drifts.
    """
    chosen = random.Random(f"{seed}/{writer}")  # noqa: S311 - keys, no secrets
    start = clock()
    for seq in range(Load(rate, seconds, keys, size, seed).count):
        due = start + seq / rate
        if (early := due - clock()) > 0:
            sleep(early)
        key = f"k{int(chosen.random() * keys)}"
        yield stamped(run, writer, seq, key, round(due * 1_000_000), size)
