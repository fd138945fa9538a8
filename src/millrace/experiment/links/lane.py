"""One direction of a link, as arithmetic: what enters leaves later, in its order."""

from __future__ import annotations

from dataclasses import dataclass

#: What waits to enter a link takes at most so long to do so, in seconds; more is not taken.
QUEUE_SECONDS = 0.02


@dataclass(slots=True)
class Lane:
    """Takes pieces at its rate and hands each over when its last byte has travelled.

    All connections of a link share its two lanes, so they share its bandwidth.
    """

    latency: float
    #: Bytes a second; None is no bound.
    rate: float | None = None
    #: When the last byte that entered has left the sender.
    free: float = 0.0

    def enter(self, size: int, now: float) -> float:
        """Return when the last byte of a piece of so many bytes arrives."""
        if self.rate is None:
            return now + self.latency
        self.free = max(now, self.free) + size / self.rate
        return self.free + self.latency

    def backlog(self, now: float) -> float:
        """Return for how many seconds the lane has work already."""
        return max(self.free - now, 0.0)

    def wait(self, now: float) -> float:
        """Return after how many seconds another piece may be taken."""
        return max(self.backlog(now) - QUEUE_SECONDS, 0.0)
