"""Pictures; the only place that asks for matplotlib, and only when there is something to draw."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from millrace.errors import OperationFailed
from millrace.experiment.declaration import Declaration
from millrace.experiment.port import Experiment
from millrace.experiment.results import Result, good

STEM = "plot"


def require_matplotlib() -> None:
    """Raise where it is not installed: better before a campaign than after it."""
    if find_spec("matplotlib") is None:
        raise OperationFailed(
            "no-matplotlib",
            "matplotlib is not installed, and plots are drawn with it",
            "pip install 'millrace[measure]', or leave the plot out with --no-plot",
        )


def draw(
    experiment: Experiment, declared: Declaration, results: Sequence[Result], folder: Path
) -> Path:
    """Draw the results into a folder, as SVG and as PNG, and return the first file."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    experiment.draw(good(results), axes)
    axes.set_title(declared.title, fontsize="medium")
    axes.grid(alpha=0.3)
    file = folder / f"{STEM}.svg"
    figure.savefig(file)
    figure.savefig(file.with_suffix(".png"), dpi=120)
    return file
