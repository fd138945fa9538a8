"""A job's ledger, kept beside its checkpoint: what became of every record it read."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

from millrace.engines.spark.checkpoint import Committed, Positions
from millrace.engines.spark.counts import IN, SKEW, counts_of
from millrace.ports import Fates, Progress

#: What Spark took the time of if there was a batch.
_WORK = "addBatch"


class Share(Protocol):
    """A job's part in a query."""

    @property
    def reads(self) -> Sequence[str]:
        """The streams that it reads from a broker."""
        ...

    def fates(self, event: Mapping[str, Any]) -> Fates:
        """Return the counts of one batch, from what the query observed."""
        ...


class Ledger:
    """Adds up the counts of batches, each once, and writes them down at each boundary."""

    def __init__(self, file: Path, share: Share, topics: Mapping[str, str]) -> None:
        """Read what is known; `share` tells the counts of a batch, `topics` each topic's stream."""
        self._file = file
        self._share = share
        self._streams = {topic: name for topic, name in topics.items() if name in share.reads}
        self._lock = threading.Lock()
        self.progress = _read(file)

    def begin(self, committed: Committed) -> None:
        """Take note of what was committed while nobody could count it."""
        with self._lock:
            positions = self._by_stream(committed.positions)
            unseen = self.distance(committed)
            if committed.batch > self.progress.batch and unseen > 0:
                fates = self.progress.fates
                fates = replace(
                    fates, read=fates.read + unseen, lost_sight=fates.lost_sight + unseen
                )
                self.progress = replace(
                    self.progress, batch=committed.batch, positions=positions, fates=fates
                )
                self._write()

    def distance(self, committed: Committed) -> int:
        """Return how many records were committed beyond those that are counted."""
        seen = self.progress.positions
        if self.progress.batch < 0:
            seen = self._by_stream(committed.first)
        return _distance(seen, self._by_stream(committed.positions))

    def add(self, event: Mapping[str, Any], now: float) -> Progress:
        """Add a batch that Spark committed; one that was added already changes nothing."""
        with self._lock:
            batch = int(event["batchId"])
            if not ran(event) or batch < self.progress.batch:  # told late: its positions are behind
                return self.progress
            sources = event.get("sources", [])
            positions: Positions = {}
            for source in sources:
                positions.update(self._by_stream(offsets(source.get("endOffset"))))
            fates = self.progress.fates
            if batch > self.progress.batch:
                fates = added(fates, self._share.fates(event))
            self.progress = Progress(
                max(batch, self.progress.batch),
                now,
                positions or self.progress.positions,
                float(event.get("processedRowsPerSecond") or 0.0),
                float(event.get("batchDuration") or 0) / 1000,
                fates,
                self._skew(event),
            )
            self._write()
            return self.progress

    def _skew(self, event: Mapping[str, Any]) -> float | None:
        """The mean skew of a batch, of the input that has the greatest; else what it was."""
        observed = event.get("observedMetrics") or {}
        counts = [c for name in self._share.reads for c in counts_of(observed, IN, name)]
        found = [count[SKEW] for count in counts if count.get(SKEW) is not None]
        return max(found) / 1000 if found else self.progress.skew_seconds

    def _by_stream(self, positions: Positions) -> Positions:
        return {
            self._streams[topic]: parts
            for topic, parts in positions.items()
            if topic in self._streams
        }

    def _write(self) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self.progress)), encoding="utf-8")
        fresh.replace(self._file)


def ran(event: Mapping[str, Any]) -> bool:
    """Whether a report is one of a batch.

    A look that found nothing to read is reported under the number of the batch that comes next.
    """
    return _WORK in event.get("durationMs", {_WORK: 0})


def added(one: Fates, other: Fates) -> Fates:
    """Return the sum of two ledgers.

    Where one of them does not know what was filtered, that is in what it used; so it is in the sum.
    """
    used = one.used + other.used
    filtered = None
    if one.filtered is not None and other.filtered is not None:
        filtered = one.filtered + other.filtered
    elif one.read == 0:
        filtered = other.filtered
    else:
        used += (one.filtered or 0) + (other.filtered or 0)
    streams = {**one.written, **other.written}
    return Fates(
        one.read + other.read,
        used,
        filtered,
        one.malformed + other.malformed,
        one.late + other.late,
        one.dropped + other.dropped,
        one.lost_sight + other.lost_sight,
        {name: one.written.get(name, 0) + other.written.get(name, 0) for name in streams},
    )


def progress_of(document: dict[str, Any]) -> Progress:
    """Return the progress of its document."""
    fates = Fates(**document["fates"])
    positions = {
        stream: {int(part): at for part, at in parts.items()}
        for stream, parts in document["positions"].items()
    }
    return Progress(**{**document, "fates": fates, "positions": positions})


def _read(file: Path) -> Progress:
    try:
        return progress_of(json.loads(file.read_text("utf-8")))
    except (FileNotFoundError, ValueError):
        return Progress()


def offsets(value: Any) -> Positions:
    """Return positions as Spark tells them, by topic or what stands for one."""
    found = json.loads(value) if isinstance(value, str) else value or {}
    return {topic: {int(p): at for p, at in parts.items()} for topic, parts in found.items()}


def _distance(before: Mapping[str, Mapping[int, int]], after: Positions) -> int:
    return sum(
        max(at - before.get(stream, {}).get(part, 0), 0)
        for stream, parts in after.items()
        for part, at in parts.items()
    )
