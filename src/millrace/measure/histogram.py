"""Latencies by their frequency; the only user of hdrh."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil
from typing import Any, Final

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # brings no types

_MICRO: Final = 1_000_000
_MOST: Final = 3_600 * _MICRO
_DIGITS: Final = 3


@dataclass(frozen=True, slots=True)
class Summary:
    """A histogram in a few figures, in seconds; None where nothing was added.

    `outside` are values below 0 (clocks that disagree) or above an hour; they count as the least
    or the greatest value that a histogram can hold.
    """

    count: int = 0
    p50: float | None = None
    p99: float | None = None
    max: float | None = None
    outside: int = 0

    def document(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


class Histogram:
    """Holds times from a microsecond to an hour to three digits, in memory of fixed size."""

    def __init__(self) -> None:
        self._hdr = HdrHistogram(1, _MOST, _DIGITS)
        self._outside = 0

    def add(self, seconds: float) -> None:
        """Count a time; see `Summary` for one that does not fit."""
        micro = round(seconds * _MICRO)
        if micro < 0 or micro > _MOST:
            self._outside += 1
        self._hdr.record_value(min(max(micro, 1), _MOST))

    @property
    def count(self) -> int:
        """Return how many were added."""
        return int(self._hdr.get_total_count())

    @property
    def max(self) -> float | None:
        """Return the greatest, to three digits."""
        return self._hdr.get_max_value() / _MICRO if self.count else None

    def p(self, percent: float) -> float | None:
        """Return the time that so many percent did not exceed, to three digits."""
        if not self.count:
            return None
        rank = ceil(self.count * percent / 100)  # hdrh would round it, half of them down
        return float(self._hdr.get_value_at_percentile(100 * rank / self.count)) / _MICRO

    def merge(self, other: Histogram) -> None:
        """Add all that another one holds."""
        if other.count:  # hdrh takes the empty one's least value, which is none
            self._hdr.add(other._hdr)
            self._outside += other._outside

    def summary(self) -> Summary:
        """Return the figures that reports show."""
        return Summary(self.count, self.p(50), self.p(99), self.max, self._outside)

    def document(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return self.summary().document()
