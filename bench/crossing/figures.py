"""Figures written down, and a picture of those that have a bar."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")

from matplotlib import pyplot as plt

from bench.streams.results import Part, median


class CrossingPart(Part):
    """A part of this benchmark: as those of streams, in files of other names."""

    def document(self) -> dict[str, Any]:
        """Return all as plain data."""
        found = super().document()
        del found["design"]
        return found

    def write(self, folder: Path) -> Path:
        """Write the figures into a folder and return the file."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"crossing-{self.name}.json"
        file.write_text(json.dumps(self.document(), indent=2) + "\n")
        return file


def medians(runs: Iterable[Mapping[str, Any]], names: Iterable[str]) -> dict[str, float | None]:
    """Return the medians of some figures; those that no run has are left out."""
    every = list(runs)
    found = {name: median([run.get(name) for run in every]) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def draw(part: Part, folder: Path) -> Path:
    """Draw each figure that has a bar as a share of it, and return the file."""
    bars = [bar for bar in part.bars if bar.limit and bar.value is not None]
    figure, axes = plt.subplots(figsize=(8, 1 + 0.7 * max(len(bars), 1)), layout="constrained")
    places = range(len(bars))
    colours = ["#0072b2" if bar.met else "#d55e00" for bar in bars]
    heights = [100 * (bar.value or 0.0) / bar.limit for bar in bars]
    axes.barh(places, heights, color=colours, height=0.5)
    axes.axvline(100, color="#7f7f7f", linewidth=1, linestyle="--")
    words = {True: "at most", False: "at least"}
    labels = [f"{b.name}\n{b.value:.3g}, {words[b.at_most]} {b.limit:.3g}" for b in bars]
    axes.set_yticks(places, labels, fontsize="small")
    axes.set(xlabel="% of the bar", xlim=(0, None))
    axes.grid(axis="x", alpha=0.3)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"crossing-{part.name}.svg"
    figure.savefig(file)
    plt.close(figure)
    return file
