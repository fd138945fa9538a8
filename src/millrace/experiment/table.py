"""Results as a table: a row for each cell of the matrix; text for people, CSV for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from millrace.experiment.declaration import Cell, Declaration
from millrace.experiment.figures import spreads
from millrace.experiment.matrix import varied
from millrace.experiment.results import Result, good

Row = list[str]


def text_table(declared: Declaration, results: Sequence[Result]) -> str:
    """Return the table for people; factors of one value stand above it."""
    factors = varied(declared)
    fixed = [f"{name} {values[0]}" for name, values in declared.matrix.items() if len(values) == 1]
    rows = [_heads(declared, factors, results), *_rows(declared, factors, results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if place < len(factors) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    above = [", ".join(fixed)] if fixed else []
    return "\n".join([*above, lines[0], "-" * len(lines[0]), *lines[1:]]) + "\n"


def csv_table(declared: Declaration, results: Sequence[Result]) -> str:
    """Return the table for programs: all factors, then runs, and least, mean and most of each."""
    factors = list(declared.matrix)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [measure.name for measure in declared.measures]
    parts = ("min", "mean", "max")
    writer.writerow([*factors, "runs", *(f"{name}_{part}" for name in names for part in parts)])
    for cell, figures, count in _cells(declared, results):
        values = [
            f"{value:.6g}" if value is not None else ""
            for name in names
            for value in figures.get(name, (None, None, None))
        ]
        writer.writerow([*(cell[factor] for factor in factors), count, *values])
    return out.getvalue()


def _heads(declared: Declaration, factors: Sequence[str], results: Sequence[Result]) -> Row:
    units = {measure.name: measure.unit for measure in declared.measures}
    names = [
        f"{name}, {units[name]}" if units[name] else name for name in _shown(declared, results)
    ]
    return [*factors, "runs", *names]


def _shown(declared: Declaration, results: Sequence[Result]) -> list[str]:
    """The measures of which there is a figure."""
    there = {name for result in results for name in result.values}
    return [measure.name for measure in declared.measures if measure.name in there]


def _rows(declared: Declaration, factors: Sequence[str], results: Sequence[Result]) -> list[Row]:
    shown = _shown(declared, results)
    return [
        [
            *(str(cell[factor]) for factor in factors),
            str(count),
            *(_figure(figures.get(name)) for name in shown),
        ]
        for cell, figures, count in _cells(declared, results)
    ]


def _figure(values: tuple[float, float, float] | None) -> str:
    if values is None:
        return "-"
    least, mean, most = values
    if least == most:
        return _short(mean)
    return f"{_short(mean)} ({_short(least)} to {_short(most)})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _cells(
    declared: Declaration, results: Sequence[Result]
) -> list[tuple[Cell, dict[str, tuple[float, float, float]], int]]:
    """Each cell with its figures (least, mean, most) and how many runs they are of."""
    factors, sound = list(declared.matrix), good(results)

    def cell_of(result: Result) -> tuple[str, ...]:
        return tuple(str(result.cell[factor]) for factor in factors)

    cells = {cell_of(result): result.cell for result in sound}
    counts = {key: sum(cell_of(result) == key for result in sound) for key in cells}
    found = {key: dict[str, tuple[float, float, float]]() for key in cells}
    for measure in declared.measures:
        for key, spread in spreads(sound, measure.name, cell_of).items():
            found[key][measure.name] = (spread.least, spread.mean, spread.most)
    return [(cells[key], found[key], counts[key]) for key in cells]
