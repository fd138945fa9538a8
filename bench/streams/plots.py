"""A picture for each part."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bench.streams.results import Part

_COLOURS = {
    "millrace": "#0072b2",
    "by hand": "#d55e00",
    "plain loop": "#7f7f7f",
    "bytewax": "#009e73",
}


#: Characters of a line below an axis.
_LABEL = 10


def draw(part: Part, folder: Path) -> Path:
    """Draw a part's figures into a folder and return the file."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    {
        "latency": _latency,
        "throughput": _rates,
        "map": _rates,
        "chain": _chain,
        "start": _start,
        "fused": _fused,
        "windows": _rates,
        "promises": _rates,
        "keyed": _rates,
        "updates": _latency,
        "traffic": _traffic,
    }[part.name](part, axes)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"streams-{part.name}.svg"
    figure.savefig(file)
    plt.close(figure)
    return file


def _latency(part: Part, axes: Axes) -> None:
    """Percentiles of every run: a thin line each."""
    styles = dict(zip(sorted({run["rate"] for run in part.runs}), ("-", "--", ":"), strict=False))
    named = set()
    for run in part.runs:
        name = f"{run['system']}, {run['rate']}/s"
        points = [(p, ms) for p, ms in run["percentiles_ms"] if ms is not None]
        places = [_nines(p) for p, _ in points]
        axes.plot(
            places,
            [ms for _, ms in points],
            styles.get(run["rate"], "-"),
            color=_COLOURS[run["system"]],
            label=None if name in named else name,
            linewidth=1,
        )
        named.add(name)
    ticks = (10, 50, 90, 99, 99.9)
    axes.set_xticks([_nines(p) for p in ticks], [f"{p:g}" for p in ticks])
    axes.set(yscale="log", xlabel="percentile", ylabel="ms from when it was meant to leave")
    axes.legend()
    axes.grid(alpha=0.3)


def _nines(percent: float) -> float:
    """A place on an axis that gives each further nine the same room."""
    from math import log10

    return -log10(max(1 - percent / 100, 1e-4))


def _rates(part: Part, axes: Axes) -> None:
    """Every run as a point, by system, mode and kind of work."""
    kinds = [run.get("kind", run["mode"]) for run in part.runs]
    several = len(set(kinds) - {"loop"}) > 1
    names = list(dict.fromkeys(_named(run, several=several) for run in part.runs))
    for place, name in enumerate(names):
        runs = [r for r in part.runs if _named(r, several=several) == name]
        rates = [run["rate"] for run in runs if not run["warm_up"]]
        axes.plot([place] * len(rates), rates, "o", color=_COLOURS[name[0]], alpha=0.7)
    labels = ["\n".join([name[0], *textwrap.wrap(name[1], _LABEL)]) for name in names]
    axes.set_xticks(range(len(names)), labels)
    axes.set(ylabel="records/s", xlim=(-0.5, len(names) - 0.5), ylim=(0, None))
    axes.grid(axis="y", alpha=0.3)


def _named(run: dict[str, Any], *, several: bool) -> tuple[str, str]:
    return run["system"], run["kind"] if several else run["mode"]


def _fused(part: Part, axes: Axes) -> None:
    """Time until the first record is through, for each kind of chain."""
    kinds = list(dict.fromkeys(run["kind"] for run in part.runs))
    for place, kind in enumerate(kinds):
        times = [run["through_seconds"] for run in part.runs if run["kind"] == kind]
        axes.plot([place] * len(times), times, "o", color=_COLOURS["millrace"], alpha=0.7)
    axes.set_xticks(range(len(kinds)), kinds)
    axes.set(ylabel="s until the first record is through", xlim=(-0.5, len(kinds) - 0.5))
    axes.set_ylim(0, None)
    axes.grid(axis="y", alpha=0.3)


def _traffic(part: Part, axes: Axes) -> None:
    """Records a second and core of every run."""
    kinds = list(dict.fromkeys(run["kind"] for run in part.runs))
    for place, kind in enumerate(kinds):
        rates = [run["per_core"] for run in part.runs if run["kind"] == kind]
        axes.plot([place] * len(rates), rates, "o", color=_COLOURS["millrace"], alpha=0.7)
    axes.set_xticks(range(len(kinds)), kinds)
    axes.set(ylabel="records/s of a core", xlim=(-0.5, len(kinds) - 0.5), ylim=(0, None))
    axes.grid(axis="y", alpha=0.3)


def _chain(part: Part, axes: Axes) -> None:
    """Time until the first record is through, over the number of jobs, with the straight line."""
    ours = [run for run in part.runs if "system" not in run]
    hand = [run for run in part.runs if "system" in run]
    places = [run["jobs"] for run in ours]
    kinds = (
        (ours, "through_seconds", "o", "millrace", "since millrace run"),
        (ours, "after_driver_seconds", "x", "millrace", "since the driver is up"),
        (hand, "through_seconds", "o", "by hand", "by hand, since its start"),
        (hand, "after_driver_seconds", "x", "by hand", "by hand, since the driver is up"),
    )
    for runs, figure, mark, colour, label in kinds:
        known = [(run["jobs"], run[figure]) for run in runs if run[figure] is not None]
        points = tuple(zip(*known, strict=True)) or ((), ())
        axes.plot(*points, mark, color=_COLOURS[colour], label=label)
    line: dict[str, Any] = part.rows["straight line"]
    ends = [min(places), max(places)]
    heights = [line["s before"] + line["s for each job"] * jobs for jobs in ends]
    axes.plot(ends, heights, color="#999999", linewidth=1, label=f"R2 {line['R2']:.3f}")
    axes.set(xlabel="jobs in the chain", ylabel="s until the first record is through")
    axes.set_ylim(bottom=0)
    axes.legend()
    axes.grid(alpha=0.3)


def _start(part: Part, axes: Axes) -> None:
    """Every run as a point."""
    names = {"run_seconds": "millrace run", "added_seconds": "job added"}
    for place, name in enumerate(names):
        values = [run[name] for run in part.runs]
        axes.plot([place] * len(values), values, "o", color=_COLOURS["millrace"])
    axes.set_xticks(range(len(names)), list(names.values()))
    axes.set(ylabel="s until the first record is through", xlim=(-0.5, 1.5), ylim=(0, None))
    axes.grid(axis="y", alpha=0.3)
