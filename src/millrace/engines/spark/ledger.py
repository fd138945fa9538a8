"""A job's ledger, kept beside its checkpoint: what became of every record it read."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from millrace.engines.spark.checkpoint import Committed, Positions
from millrace.ports import Fates, Progress


class Ledger:
    """Adds up the counts of batches, each once, and writes them down at each boundary."""

    def __init__(
        self, file: Path, *, carries: bool, topics: Mapping[str, str], only: str | None = None
    ) -> None:
        """Read what is known; `only` is the stream that gets a row for each record used."""
        self._file = file
        self._carries = carries
        self._only = only
        #: The stream of each topic.
        self._streams = dict(topics)
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

    def add(self, event: dict[str, Any], now: float) -> Progress:
        """Add a batch that Spark committed; one that was added already changes nothing."""
        with self._lock:
            batch = int(event["batchId"])
            sources = event.get("sources", [])
            positions: Positions = {}
            for source in sources:
                positions.update(self._by_stream(_offsets(source.get("endOffset"))))
            fates = self.progress.fates
            if batch > self.progress.batch:
                fates = added(fates, self._batch(event))
            self.progress = Progress(
                max(batch, self.progress.batch),
                now,
                positions or self.progress.positions,
                float(event.get("processedRowsPerSecond") or 0.0),
                float(event.get("batchDuration") or 0) / 1000,
                fates,
            )
            self._write()
            return self.progress

    def _batch(self, event: dict[str, Any]) -> Fates:
        """The counts of one batch, from what the query observed."""
        observed = event.get("observedMetrics") or {}
        out = observed.get("out") or {}
        written = {
            name.partition(":")[2]: int(count or 0)
            for name, count in out.items()
            if name.startswith("written:")
        }
        if self._carries:
            read = sum(int(source.get("numInputRows") or 0) for source in event.get("sources", []))
            used, malformed = int(out.get("used") or 0), int(out.get("malformed") or 0)
            dropped = int(out.get("dropped") or 0)
            if self._only is not None:
                written = {self._only: used}
            filtered = max(read - used - malformed - dropped, 0)
            return Fates(read, used, filtered, malformed, 0, dropped, 0, written)
        counts = [value for name, value in observed.items() if name.startswith("in:")]
        read = sum(int(value.get("read") or 0) for value in counts)
        malformed = sum(int(value.get("malformed") or 0) for value in counts)
        late = sum(
            int(operator.get("numRowsDroppedByWatermark") or 0)
            for operator in event.get("stateOperators", [])
        )
        return Fates(read, read - malformed, None, malformed, late, 0, 0, written)

    def _by_stream(self, positions: Positions) -> Positions:
        return {self._streams.get(topic, topic): parts for topic, parts in positions.items()}

    def _write(self) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self.progress)), encoding="utf-8")
        fresh.replace(self._file)


def added(one: Fates, other: Fates) -> Fates:
    """Return the sum of two ledgers; what one of them does not know is unknown."""
    filtered = None
    if one.filtered is not None and other.filtered is not None:
        filtered = one.filtered + other.filtered
    elif one.read == 0:
        filtered = other.filtered
    streams = {**one.written, **other.written}
    return Fates(
        one.read + other.read,
        one.used + other.used,
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


def _offsets(value: Any) -> Positions:
    found = json.loads(value) if isinstance(value, str) else value or {}
    return {topic: {int(p): at for p, at in parts.items()} for topic, parts in found.items()}


def _distance(before: Mapping[str, Mapping[int, int]], after: Positions) -> int:
    return sum(
        max(at - before.get(stream, {}).get(part, 0), 0)
        for stream, parts in after.items()
        for part, at in parts.items()
    )
