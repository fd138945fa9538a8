"""The arithmetic: straight lines, spreads, percentiles, and figures written down."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.streams.results import Part


@dataclass(frozen=True, slots=True)
class Fit:
    """A straight line through points, and how much of their spread it explains."""

    slope: float
    base: float
    r2: float

    def at(self, place: float) -> float:
        """Return its height."""
        return self.base + self.slope * place


def fitted(places: Sequence[float], heights: Sequence[float]) -> Fit | None:
    """Return the line of least squares; None where all points are above one place."""
    count = len(places)
    if len(set(places)) < 2:
        return None
    middle, mean = sum(places) / count, sum(heights) / count
    points = list(zip(places, heights, strict=True))
    wide = sum((x - middle) ** 2 for x in places)
    slope = sum((x - middle) * (y - mean) for x, y in points) / wide
    base = mean - slope * middle
    left = sum((y - base - slope * x) ** 2 for x, y in points)
    spread = sum((y - mean) ** 2 for y in heights)
    return Fit(slope, base, 1 - left / spread if spread else 1.0)


@dataclass(frozen=True, slots=True)
class Spread:
    """The least, the mean and the most of some figures."""

    least: float
    mean: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return those of some figures, at least one."""
        return cls(min(values), sum(values) / len(values), max(values))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the least of the figures that so many percent of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * percent / 100) - 1, 0)]


def by_size(runs: Sequence[Mapping[str, Any]], what: str) -> dict[int, Spread]:
    """Return the spread of the seconds that something took, by how many jobs it was about."""
    found: dict[int, list[float]] = {}
    for run in runs:
        if run["what"] == what:
            found.setdefault(run["jobs"], []).append(run["seconds"])
    return {jobs: Spread.of(values) for jobs, values in sorted(found.items())}


def fit_of_means(spreads: Mapping[int, Spread]) -> Fit | None:
    """Return the straight line through the means."""
    return fitted(list(spreads), [spread.mean for spread in spreads.values()])


class SitePart(Part):
    """A part of this benchmark: as those of streams, in files of other names."""

    def document(self) -> dict[str, Any]:
        """Return all as plain data."""
        found = super().document()
        del found["design"]
        return {**found, "table": found.pop("medians")}

    def write(self, folder: Path) -> Path:
        """Write the figures into a folder and return the file."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"sites-{self.name}.json"
        file.write_text(json.dumps(self.document(), indent=2) + "\n")
        return file
