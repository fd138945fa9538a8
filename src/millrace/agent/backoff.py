"""When to try again: at once, then later and later."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_SECONDS, MOST_SECONDS = 1.0, 60.0
#: What ran this long, its start included, has recovered: its next failure is a first one again.
HEALTHY_SECONDS = 30.0


@dataclass(slots=True)
class Backoff:
    """The failures of one thing, and when it may be tried again (by a monotonic clock)."""

    failures: int = 0
    not_before: float = 0.0
    since: float = 0.0

    def failed(self, now: float) -> None:
        """Count a failure; the first is tried again at once."""
        if self.since and now - self.since > HEALTHY_SECONDS:
            self.failures = 0
        self.failures += 1
        self.since = 0.0
        wait = 0.0 if self.failures == 1 else FIRST_SECONDS * 2 ** min(self.failures - 2, 10)
        self.not_before = now + min(wait, MOST_SECONDS)

    def started(self, now: float) -> None:
        """Take note that it runs."""
        self.since = now

    def may(self, now: float) -> bool:
        """Whether it may be tried now."""
        return now >= self.not_before
