"""The kinds of work that are measured: what a job says, and what it gives for so many records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.streams.topics import KEYS, SPACING, passing

_CARS = "{id: long, speed: double, lat: double, lon: double, ts: long, road: string}"
_TIMED = "{id: long, speed: double, at: timestamp, road: string}"
_SQL = 'sql: "SELECT id, speed, road FROM raw WHERE speed > 50"'
_MAP = 'map: "mapped:fast"'
_COUNT = "aggregate: {n: count(*)}"


@dataclass(frozen=True, slots=True)
class Kind:
    """What a job says, what its input holds, and how many results so many records have."""

    lines: tuple[str, ...]
    schema: str = _CARS
    results: Callable[[int], int] = passing
    #: How the same is called in `by_hand.py`, if it is there.
    by_hand: str = ""
    sink: str = "{}"
    #: Whether malformed records go to a stream of dead letters.
    letters: bool = True


def _windows(seconds: int) -> Callable[[int], int]:
    """How many windows close: every key is in all of them."""
    return lambda count: -(-count * SPACING // (seconds * 1000)) * KEYS


def _windowed(seconds: int, *more: str, by_hand: str = "", letters: bool = True) -> Kind:
    said = ", ".join((f"of: {seconds} s", "by: at", "per: road", *more))
    lines = (f"window: {{{said}}}", _COUNT)
    return Kind(lines, _TIMED, _windows(seconds), by_hand, letters=letters)


KINDS = {
    "sql": Kind((_SQL,), by_hand="sql"),
    "map": Kind((_MAP,), by_hand="arrow"),
    "once": Kind((_SQL, "promise: no-duplicates")),
    "farm": Kind((_MAP, "replicas: 2", "order: none")),
    "preserve": Kind((_MAP, "replicas: 2", "order: preserve")),
    "windows": _windowed(10, by_hand="windows", letters=False),
    "windows with dead letters": _windowed(10),
    "exact": _windowed(10, "late: count"),
    "exact 100 s": _windowed(100, "late: count"),
    "exact 1000 s": _windowed(1000, "late: count"),
    "updates": Kind(
        ("window: {of: 10 s, by: at, per: road}", "emit: updates",
         "aggregate: {n: count(*), id: max(id)}"),
        _TIMED, lambda count: count, by_hand="updates", letters=False,
    ),
    "keyed": Kind(('state: {code: "mapped:Counted", key: road}',), _TIMED, lambda count: count,
                  sink="{schema: {road: string, n: long}}"),
}  # fmt: skip
