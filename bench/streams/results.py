"""Figures of a part: every run, medians, ratios, bars; written down and printed."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

#: What the design measured on its own machine, by hand; for comparison only.
DESIGN = {
    "real-time, records/s": 176_000,
    "drain, records/s": 162_000,
    "map in Arrow, records/s": 120_000,
    "p50, ms": 2.9,
    "p99, ms": 10.2,
}


@dataclass(frozen=True, slots=True)
class Bar:
    """What must be reached: at most or at least `limit`."""

    name: str
    value: float | None
    limit: float
    at_most: bool = True

    @property
    def met(self) -> bool:
        """Whether it is; a figure that is missing is not."""
        if self.value is None:
            return False
        return self.value <= self.limit if self.at_most else self.value >= self.limit


@dataclass(slots=True)
class Part:
    """What a part of the benchmark found."""

    name: str
    runs: list[dict[str, Any]] = field(default_factory=list)
    #: The table: a name and figures by column.
    rows: dict[str, dict[str, float | None]] = field(default_factory=dict)
    bars: list[Bar] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Return all as plain data."""
        return {
            "part": self.name,
            "machine": machine(),
            "runs": self.runs,
            "medians": self.rows,
            "bars": [{**asdict(bar), "met": bar.met} for bar in self.bars],
            "design": DESIGN,
            "notes": self.notes,
        }

    def write(self, folder: Path) -> Path:
        """Write the figures into a folder and return the file."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"streams-{self.name}.json"
        file.write_text(json.dumps(self.document(), indent=2) + "\n")
        return file

    def show(self) -> None:
        """Print the table and the bars."""
        print(f"\n== {self.name}")
        for name, figures in self.rows.items():
            cells = "  ".join(f"{column} {_short(value)}" for column, value in figures.items())
            print(f"  {name:34} {cells}")
        for note in self.notes:
            print(f"  note: {note}")
        for bar in self.bars:
            word = "at most" if bar.at_most else "at least"
            met = "met   " if bar.met else "MISSED"
            print(f"  {met} {bar.name}: {_short(bar.value)} ({word} {bar.limit:g})")


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def median(values: Sequence[float | None]) -> float | None:
    """Return the median of those that are there."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """Return ours in terms of theirs."""
    return ours / theirs if ours is not None and theirs else None


def _short(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
