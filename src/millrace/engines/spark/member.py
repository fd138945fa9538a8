"""A job's share of a query: its ledger, from what the query counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millrace.engines.spark.counts import IN, OLD, counts_of
from millrace.engines.spark.passing import SEAMS
from millrace.ports import Fates

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Alone:
    """A job that is a query of its own."""

    job: str
    reads: Sequence[str]
    #: Whether each row knows the record it came from.
    carries: bool
    #: The stream that gets a row for each record used, if there is one.
    only: str | None = None
    #: Whether each record enters state, and so is used whatever it gives.
    enters: bool = False

    def fates(self, event: Event) -> Fates:
        """Return the counts of one batch."""
        observed = event.get("observedMetrics") or {}
        out = observed.get("out") or {}
        written = _written(out)
        if self.carries:
            read = sum(int(source.get("numInputRows") or 0) for source in event.get("sources", []))
            used, malformed = int(out.get("used") or 0), int(out.get("malformed") or 0)
            dropped = int(out.get("dropped") or 0) + _old(observed, self.reads)
            if self.only is not None:
                written = {self.only: used}
            if self.enters:
                used = read - malformed - dropped
            filtered = max(read - used - malformed - dropped, 0)
            return Fates(read, used, filtered, malformed, 0, dropped, 0, written)
        counts = [value for name, value in observed.items() if name.startswith(IN)]
        old = _old(observed, self.reads)
        read = sum(int(value.get("read") or 0) for value in counts) + old
        malformed = sum(int(value.get("malformed") or 0) for value in counts)
        if "late" in observed:  # windows of our own know it exactly
            late = int(observed["late"].get("late") or 0)
            return Fates(read, read - malformed - late - old, 0, malformed, late, old, 0, written)
        used = read - malformed - old
        return Fates(read, used, None, malformed, _late(event), old, 0, written)


@dataclass(frozen=True, slots=True)
class Member:
    """A job that shares its query with others."""

    job: str
    #: The streams that it reads from a broker, and those inside the query.
    reads: Sequence[str]
    inner: Sequence[str]
    #: The streams that it writes, and those of them that are inside.
    writes: Sequence[str]
    inside: frozenset[str]
    #: Whether each of its rows knows the record it came from, one row for a record.
    carries: bool
    #: Whether it is a function over records, which counts for itself.
    mapped: bool = False

    def fates(self, event: Event) -> Fates:
        """Return the counts of one batch."""
        observed = event.get("observedMetrics") or {}
        out = observed.get("out") or {}
        at_seams = _seams(observed)
        counts = _counts(observed, IN, self.reads)
        read = sum(int(count.get("read") or 0) for count in counts)
        counts += [observed.get(f"seam:{name}") or {} for name in self.inner]
        malformed = sum(int(count.get("malformed") or 0) for count in counts)
        old = _old(observed, self.reads)
        read += sum(at_seams.get(name, 0) for name in self.inner) + old
        sinks = _written(out)
        written = {
            name: at_seams.get(name, 0) if name in self.inside else sinks.get(name, 0)
            for name in self.writes
        }
        if self.mapped:
            seen = observed.get(f"map:{self.job}") or {}
            return self._mapped(read, malformed, old, written, seen)
        if not self.carries:
            used = read - malformed - old
            return Fates(read, used, None, malformed, _late(event), old, 0, written)
        dropped = sum(int(out.get(f"dropped:{name}") or 0) for name in self.writes) + old
        if len(self.writes) > 1:  # how many records gave a row for any of them nobody counted
            return Fates(read, read - malformed - old, None, malformed, 0, old, 0, written)
        used = sum(written.values())
        filtered = max(read - used - malformed - dropped, 0)
        return Fates(read, used, filtered, malformed, 0, dropped, 0, written)

    @staticmethod
    def _mapped(
        read: int, malformed: int, old: int, written: dict[str, int], seen: Mapping[str, Any]
    ) -> Fates:
        used, dropped = int(seen.get("used") or 0), int(seen.get("dropped") or 0) + old
        malformed += int(seen.get("malformed") or 0)
        filtered = max(read - used - malformed - dropped, 0)
        return Fates(read, used, filtered, malformed, 0, dropped, 0, written)


def _seams(observed: Mapping[str, Any]) -> dict[str, int]:
    """The rows of each stream inside: counted at the stream, or all of them at the input."""
    found = {
        name.partition(":")[2]: int(counts.get("rows") or 0)
        for name, counts in observed.items()
        if name.startswith("seam:")
    }
    for name, counts in observed.items():
        if name.startswith(SEAMS):
            found |= {stream: int(rows or 0) for stream, rows in counts.items()}
    return found


def _old(observed: Mapping[str, Any], streams: Sequence[str]) -> int:
    """How many records were left out because they were too old."""
    return sum(int(count.get("records") or 0) for count in _counts(observed, OLD, streams))


def _counts(
    observed: Mapping[str, Any], kind: str, streams: Sequence[str]
) -> list[Mapping[str, Any]]:
    """What was counted of streams; one that is read twice has its counts under one name each."""
    return [count for name in dict.fromkeys(streams) for count in counts_of(observed, kind, name)]


def _written(out: Mapping[str, Any]) -> dict[str, int]:
    return {
        name.partition(":")[2]: int(count or 0)
        for name, count in out.items()
        if name.startswith("written:")
    }


def _late(event: Event) -> int:
    return sum(
        int(operator.get("numRowsDroppedByWatermark") or 0)
        for operator in event.get("stateOperators", [])
    )
