"""Spans and numbers as people say them."""

from __future__ import annotations

import math
from datetime import datetime

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


def span(seconds: float | None) -> str:
    """Return a span of time: 0.4 s, 3 s, 2 min, 5 h, 4 d; - for none."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    seconds = max(seconds, 0.0)
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"


def age(at: float | None, now: float) -> str:
    """Return how long ago something was, in whole seconds at least; - for never."""
    return "-" if not at else span(float(math.floor(max(now - at, 0.0))))


def clock(at: float | None) -> str:
    """Return a moment by the clock of who reads it."""
    if not at:
        return "-"
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def number(value: float | None) -> str:
    """Return a number that is short enough for a table."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.1f}"


def plain(text: object) -> str:
    """Return a text on one line, without what a terminal would obey."""
    found = " ".join(str(text).split())
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in found)
