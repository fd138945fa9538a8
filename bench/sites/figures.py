"""The arithmetic beside that of experiments: percentiles, and figures written down."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.streams.results import Part
from millrace.experiment.figures import Fit, Spread, fitted


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
