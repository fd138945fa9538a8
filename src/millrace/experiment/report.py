"""Writes what a campaign found: the table, the plot and the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from millrace.experiment.campaign import Outcome
from millrace.experiment.declaration import Declaration
from millrace.experiment.page import page
from millrace.experiment.plot import draw
from millrace.experiment.port import Experiment
from millrace.experiment.results import good
from millrace.experiment.table import csv_table, text_table


@dataclass(frozen=True, slots=True)
class Report:
    """The table as text, what was found, and the files that were written."""

    table: str
    findings: tuple[str, ...]
    files: tuple[Path, ...]


def write_report(
    experiment: Experiment,
    declared: Declaration,
    outcome: Outcome,
    folder: Path,
    *,
    plotted: bool = True,
) -> Report | None:
    """Write all there is to see into a folder; None where no run was good."""
    results = good(outcome.results)
    if not results:
        return None
    findings = experiment.findings(results)
    picture = draw(experiment, declared, results, folder) if plotted else None
    table = text_table(declared, results)
    files = {
        "table.txt": table,
        "table.csv": csv_table(declared, results),
        "page.md": page(
            declared, outcome.results, findings, picture.name if picture is not None else None
        ),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    written = (*(folder / name for name in files), *((picture,) if picture is not None else ()))
    return Report(table, tuple(findings), written)
