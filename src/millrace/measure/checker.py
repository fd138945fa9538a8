"""Keeps the books of a run: which of the records that were sent arrived, how often, in what order.

No clock and no I/O. A record costs one bit, a key of a writer one number.
"""

from __future__ import annotations

from typing import Final

from millrace.measure.histogram import Histogram
from millrace.measure.report import Found, Name, Report
from millrace.measure.stamp import Stamp, read_stamp
from millrace.ports import Record

#: How many examples a report names.
EXAMPLES: Final = 5


class Checker:
    """Compares what arrives with what was sent. One thread at a time."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._writers: dict[int, _Arrivals] = {}
        self._highest: dict[tuple[int, str], int] = {}
        self._duplicate = _Tally()
        self._reordered = _Tally()
        self._latency = Histogram()
        self._read = self._corrupt = self._late = self._foreign = 0

    def expect(self, writer: int, count: int) -> None:
        """Say how many records a writer sent, numbered from 0; before or after they arrive."""
        self._writers.setdefault(writer, _Arrivals()).expect(count)

    @property
    def complete(self) -> bool:
        """Whether all that is expected has arrived."""
        return all(arrivals.complete for arrivals in self._writers.values())

    def seen(
        self, record: Record, arrival: float | None = None, late_after: float | None = None
    ) -> None:
        """Note a record that arrived, at `arrival` (seconds since the epoch) if that is known.

        One that took more than `late_after` seconds from the time it was due is late.
        """
        stamp = read_stamp(record.value)
        if stamp is None:
            self._corrupt += 1
            return
        if stamp.run != self._run:
            self._foreign += 1
            return
        self._read += 1
        if not self._writers.setdefault(stamp.writer, _Arrivals()).note(stamp.seq):
            self._duplicate.add((stamp.writer, stamp.seq))
            return
        self._order(stamp)
        if arrival is not None:
            took = arrival - stamp.sent / 1_000_000
            self._latency.add(took)
            self._late += late_after is not None and took > late_after

    def _order(self, stamp: Stamp) -> None:
        lane = (stamp.writer, stamp.key)
        if stamp.seq < self._highest.get(lane, -1):
            self._reordered.add((stamp.writer, stamp.seq))
        else:
            self._highest[lane] = stamp.seq

    def report(self) -> Report:
        """Return the books as of now."""
        missing, unexpected = _Tally(), _Tally()
        for writer, arrivals in sorted(self._writers.items()):
            missing.add_all(writer, *arrivals.missing())
            unexpected.add_all(writer, *arrivals.unexpected())
        return Report(
            sent=sum(arrivals.count for arrivals in self._writers.values()),
            read=self._read,
            missing=missing.found(),
            duplicate=self._duplicate.found(),
            reordered=self._reordered.found(),
            unexpected=unexpected.found(),
            corrupt=self._corrupt,
            late=self._late,
            foreign=self._foreign,
            latency=self._latency.summary(),
        )


class _Arrivals:
    """Which numbers of a writer arrived: one bit each."""

    __slots__ = ("_bits", "_total", "_within", "count")

    def __init__(self) -> None:
        self._bits = bytearray()
        self._total = self._within = 0
        self.count = 0

    @property
    def complete(self) -> bool:
        return self._within == self.count

    def expect(self, count: int) -> None:
        self.count = count
        place, rest = count >> 3, count & 7
        whole = int.from_bytes(self._bits[:place], "little").bit_count()
        part = self._bits[place : place + 1]
        self._within = whole + ((part[0] & ((1 << rest) - 1)).bit_count() if part else 0)

    def note(self, seq: int) -> bool:
        """Set a bit; False if it was set before."""
        place, bit = seq >> 3, 1 << (seq & 7)
        if place >= len(self._bits):  # by doubling: growth costs the same per record
            self._bits.extend(bytes(max(place + 1, 2 * len(self._bits)) - len(self._bits)))
        if self._bits[place] & bit:
            return False
        self._bits[place] |= bit
        self._total += 1
        self._within += seq < self.count
        return True

    def _has(self, seq: int) -> bool:
        place = seq >> 3
        return place < len(self._bits) and bool(self._bits[place] & (1 << (seq & 7)))

    def missing(self) -> tuple[int, list[int]]:
        """Return how many of the expected did not arrive, and the first few."""
        lacking = self.count - self._within
        first: list[int] = []
        seq = 0
        while len(first) < min(lacking, EXAMPLES):
            if seq & 7 == 0 and self._bits[seq >> 3 : (seq >> 3) + 1] == b"\xff":
                seq += 8
                continue
            if not self._has(seq):
                first.append(seq)
            seq += 1
        return lacking, first

    def unexpected(self) -> tuple[int, list[int]]:
        """Return how many arrived that nobody sent, and the first few."""
        beyond = self._total - self._within
        first: list[int] = []
        seq = self.count
        while len(first) < min(beyond, EXAMPLES):
            if seq & 7 == 0 and not self._bits[seq >> 3]:
                seq += 8
                continue
            if self._has(seq):
                first.append(seq)
            seq += 1
        return beyond, first


class _Tally:
    """Counts, and keeps the first few."""

    __slots__ = ("_count", "_examples")

    def __init__(self) -> None:
        self._count = 0
        self._examples: list[Name] = []

    def add(self, name: Name) -> None:
        self.add_all(name[0], 1, [name[1]])

    def add_all(self, writer: int, count: int, first: list[int]) -> None:
        self._count += count
        room = EXAMPLES - len(self._examples)
        self._examples += [(writer, seq) for seq in first[:room]]

    def found(self) -> Found:
        return Found(self._count, tuple(self._examples))
