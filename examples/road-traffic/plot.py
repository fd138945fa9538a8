"""Draws the results of the road-traffic pipeline: vehicles and speed, for each edge and in total.

    python plot.py DIR --out traffic.png

reads `local-EDGE.jsonl` and `global.jsonl`, a row in each line, and writes a PNG or SVG.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, DateFormatter
from matplotlib.figure import Figure

#: Colours that people who see colours differently can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
TOTAL = "#4D4D4D"
LOCAL_LENGTH, GLOBAL_LENGTH = timedelta(seconds=10), timedelta(minutes=1)

Rows = Sequence[Mapping[str, Any]]


def draw(local: Mapping[str, Rows], total: Rows, out: Path) -> None:
    """Draw rows of {start, vehicles, speed} for each edge and in total to a PNG or SVG file.

    `start` is a time of ISO 8601. The rows may be in any order; a file that is there is replaced.
    """
    figure = Figure(figsize=(11, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2, sharex="col", width_ratios=[3, 2])
    for row, (what, label) in enumerate((("vehicles", "vehicles per window"),
                                         ("speed", "mean speed (km/h)"))):  # fmt: skip
        for number, (edge, rows) in enumerate(local.items()):
            _line(axes[row][0], rows, what, edge, COLOURS[number % len(COLOURS)])
        _bars(axes[row][1], total, what)
        _dress(axes[row][0], label, empty=not any(local.values()))
        _dress(axes[row][1], label, empty=not total)
        _mark_windows(axes[row][1], total)
    axes[0][0].set_title("Each edge: windows of 10 s, every 2 s", fontsize=11)
    axes[0][1].set_title("All sites: windows of 1 min", fontsize=11)
    axes[1][0].set_xlabel("end of the window (UTC)")
    axes[1][1].set_xlabel("time of the window (UTC)")
    if local:
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=len(labels), frameon=False)
    figure.suptitle("Road traffic", fontsize=13)
    figure.savefig(out, dpi=130)


def _line(axis: Axes, rows: Rows, what: str, name: str, colour: str) -> None:
    """Draw a line over the ends of windows: that is when a value is known."""
    points = sorted((_time(row) + LOCAL_LENGTH, row[what]) for row in rows)
    axis.plot(
        [at for at, _ in points],  # type: ignore[arg-type] # dates are drawn, the stubs know floats
        [value for _, value in points],
        color=colour,
        label=name,
        linewidth=1.8,
    )


def _bars(axis: Axes, rows: Rows, what: str) -> None:
    """Draw a bar as wide as its window, with its value above."""
    middles = [_time(row) + GLOBAL_LENGTH / 2 for row in rows]
    bars = axis.bar(
        middles,  # type: ignore[arg-type] # dates are drawn, the stubs know floats
        [row[what] for row in rows],
        width=0.9 * GLOBAL_LENGTH,  # type: ignore[arg-type]
        color=TOTAL,
    )
    if len(rows) <= 8:
        axis.bar_label(bars, fmt="{:,.0f}" if what == "vehicles" else "{:.1f}", fontsize=9)
        axis.margins(y=0.12)


def _dress(axis: Axes, label: str, *, empty: bool) -> None:
    axis.set_ylabel(label)
    axis.set_ylim(bottom=0)
    axis.yaxis.set_major_formatter("{x:,.0f}")
    axis.grid(axis="y", color="#DDDDDD", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    if empty:
        axis.set_xticks([])
        axis.text(0.5, 0.5, "no window has closed", ha="center", transform=axis.transAxes)
        return
    axis.xaxis.set_major_locator(AutoDateLocator(minticks=3, maxticks=6))  # type: ignore[no-untyped-call]
    axis.xaxis.set_major_formatter(DateFormatter("%H:%M:%S"))  # type: ignore[no-untyped-call]


def _mark_windows(axis: Axes, rows: Rows) -> None:
    """Put ticks, six at most, where windows begin and where the last one ends."""
    starts = sorted({_time(row) for row in rows})
    if starts:
        edges = [*starts, starts[-1] + GLOBAL_LENGTH]
        axis.set_xticks(edges[:: -(-len(edges) // 6)])  # type: ignore[arg-type]
        axis.xaxis.set_major_formatter(DateFormatter("%H:%M"))  # type: ignore[no-untyped-call]


def _time(row: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(row["start"])


def rows_of(path: Path) -> Rows:
    """Return the rows of a file that has one in each line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def main() -> None:
    """Draw the results of a folder."""
    parser = argparse.ArgumentParser(description="Draw the results of the road-traffic pipeline.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="a PNG or SVG file")
    given = parser.parse_args()
    files = sorted(given.folder.glob("local-*.jsonl"))
    local = {path.stem.removeprefix("local-"): rows_of(path) for path in files}
    draw(local, rows_of(given.folder / "global.jsonl"), given.out)


if __name__ == "__main__":
    main()
