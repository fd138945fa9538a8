"""Where the time of a record goes: its latency hop by hop.

A sampled share of the records carries the header `millrace-times`: milliseconds with commas
between them. Each hop appends the broker's time of the record that it read, so the last record
holds the whole way, and the hops add up to the end-to-end latency without any clock in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from millrace.ports import TIMES_HEADER, Record


@dataclass(frozen=True, slots=True)
class HopShare:
    """A hop over `count` records: percentiles in seconds, and its share of the mean latency.

    A share below 0 comes of brokers whose clocks disagree.
    """

    name: str
    count: int
    p50: float
    p99: float
    share: float


def appended(header: bytes | None, time: int) -> bytes:
    """Return the header that a hop writes, from its input's header and broker time (ms)."""
    return b"%b,%d" % (header, time) if header else b"%d" % time


def hop_times(record: Record) -> tuple[int, ...]:
    """Return the times of the way in milliseconds, the record's own last.

    Empty for a record that is not sampled, has no time of its own, or has a header that is wrong.
    """
    header = record.header(TIMES_HEADER)
    if not header or record.time is None:
        return ()
    parts = header.split(b",")
    if not all(part.isdigit() and len(part) < 20 for part in parts):
        return ()
    return (*(int(part) for part in parts), record.time)


def shares(records: Iterable[Record], names: Sequence[str]) -> list[HopShare]:
    """Return what each hop, named from the first on, has of the mean end-to-end latency.

    Records with another number of hops are left out. The shares add up to 1; where the mean is 0
    they are alike. Without any record of so many hops the list is empty.
    """
    ways = [times for times in map(hop_times, records) if len(times) == len(names) + 1]
    if not ways or not names:
        return []
    hops = [sorted(hop) for hop in zip(*(_steps(times) for times in ways), strict=True)]
    whole = sum(times[-1] - times[0] for times in ways)
    return [
        HopShare(
            name,
            len(took),
            _percentile(took, 50) / 1000,
            _percentile(took, 99) / 1000,
            sum(took) / whole if whole else 1 / len(names),
        )
        for name, took in zip(names, hops, strict=True)
    ]


def _steps(times: tuple[int, ...]) -> list[int]:
    return [after - before for before, after in pairwise(times)]


def _percentile(ordered: Sequence[int], percent: int) -> int:
    """The least value that so many percent do not exceed."""
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]
