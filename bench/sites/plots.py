"""A picture for each part."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("svg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bench.sites.figures import SitePart, by_size, fit_of_means

_LINES = {"deploy": ("#0072b2", "o"), "modify": ("#d55e00", "s"), "delete": ("#009e73", "^")}


def draw(part: SitePart, folder: Path) -> Path:
    """Draw a part's figures into a folder, as SVG and as PNG, and return the first file."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    {"chains": _chains, "api": _api}.get(part.name, _bars)(part, axes)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"sites-{part.name}.svg"
    figure.savefig(file)
    figure.savefig(file.with_suffix(".png"), dpi=120)
    plt.close(figure)
    return file


def _chains(part: SitePart, axes: Axes) -> None:
    """Time against jobs: means with the least and the most, and straight lines through them."""
    for what, (colour, mark) in _LINES.items():
        spreads = by_size(part.runs, what)
        jobs, means = list(spreads), [spread.mean for spread in spreads.values()]
        below = [spread.mean - spread.least for spread in spreads.values()]
        above = [spread.most - spread.mean for spread in spreads.values()]
        axes.errorbar(
            jobs, means, [below, above], fmt=mark, color=colour, capsize=3, markersize=5, label=what
        )
        if (fit := fit_of_means(spreads)) is not None:
            ends = [min(jobs), max(jobs)]
            label = f"{fit.base:.1f} + {fit.slope:.2f} x, R2 {fit.r2:.3f}"
            axes.plot(ends, [fit.at(x) for x in ends], color=colour, linewidth=1, label=label)
    axes.set(xlabel="jobs", ylabel="s from apply to done", xlim=(0, None), ylim=(0, None))
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)


def _api(part: SitePart, axes: Axes) -> None:
    """How many requests were answered within a time."""
    for run, colour in zip(part.runs, ("#7f7f7f", "#0072b2"), strict=False):
        took = sorted(run["ms"])
        shares = [100 * (place + 1) / len(took) for place in range(len(took))]
        axes.plot(took, shares, color=colour, label=run["what"])
    axes.axvline(part.bars[0].limit, color="#d55e00", linewidth=1, linestyle="--")
    axes.set(xscale="log", xlabel="ms from when it was due", ylabel="% of requests")
    axes.legend()
    axes.grid(alpha=0.3)


def _bars(part: SitePart, axes: Axes) -> None:
    """Each figure that has a bar, as a share of it."""
    bars = [bar for bar in part.bars if bar.limit and bar.value is not None]
    places = range(len(bars))
    heights = [100 * (bar.value or 0.0) / bar.limit for bar in bars]
    axes.barh(places, heights, color="#0072b2", height=0.5)
    axes.axvline(100, color="#d55e00", linewidth=1, linestyle="--")
    labels = [f"{bar.name}\n{bar.value:.3g} of {bar.limit:g}" for bar in bars]
    axes.set_yticks(places, labels, fontsize="small")
    axes.set(xlabel="% of what is allowed", xlim=(0, None), ylim=(-0.8, len(bars) - 0.2))
    axes.grid(axis="x", alpha=0.3)
