"""What a receiver counts, in a small file beside its spool that anybody may read."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

_SECONDS = 1.0


@dataclass(slots=True)
class Counts:
    """What came since the spool was made; a kill may cost the counts of the last second."""

    #: Messages that went into the spool; those of them that the broker had sent before, and kept.
    received: int = 0
    redelivered: int = 0
    retained: int = 0
    #: Duplicates of QoS 2, which did not go there.
    dropped: int = 0
    #: Connections after the first, and sessions that the broker did not have any more.
    reconnects: int = 0
    sessions_lost: int = 0
    #: Since when there is a connection, in seconds; None if there is none.
    connected_since: float | None = None
    last_error: str | None = None
    last_error_at: float | None = None


def read_counts(file: Path) -> Counts:
    """Return what a file says; nothing where it says nothing."""
    known = {}
    with suppress(FileNotFoundError, ValueError):
        known = json.loads(file.read_text("utf-8"))
    names = {field.name for field in fields(Counts)}
    return Counts(**{name: value for name, value in known.items() if name in names})


class Counters:
    """The counts of a receiver and their file, written once a second at most."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.counts = read_counts(file)
        self.counts.connected_since = None
        self._written = 0.0

    def write(self, *, now: bool = False) -> bool:
        """Write them down if the last time was a while ago, or `now`; returns whether it did."""
        moment = time.monotonic()
        if not now and moment - self._written < _SECONDS:
            return False
        self._written = moment
        fresh = self._file.with_name(f"{self._file.name}.new")
        with suppress(OSError):  # a full disk is told by the spool
            fresh.write_text(json.dumps(asdict(self.counts)), encoding="utf-8")
            fresh.replace(self._file)
        return True

    def failed(self, said: str) -> None:
        """Note an error, and that there is no connection."""
        self.counts.last_error, self.counts.last_error_at = said, time.time()
        self.counts.connected_since = None
        self.write(now=True)
