"""The runs of a declaration, in the order in which they are done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, product

from millrace.experiment.declaration import Cell, Declaration

#: What tells one run from another.
Key = tuple[tuple[tuple[str, str], ...], int]


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement: a cell of the matrix, which repeat, with which seed."""

    cell: Cell
    repeat: int
    seed: int

    @property
    def key(self) -> Key:
        """What tells it from others: a repeat with another seed is another run."""
        return key_of(self.cell, self.seed)

    def __str__(self) -> str:
        return f"{cell_text(self.cell)}, seed {self.seed}"


def key_of(cell: Cell, seed: int) -> Key:
    """Return what tells a run from others."""
    return tuple(sorted((factor, str(value)) for factor, value in cell.items())), seed


def cell_text(cell: Cell) -> str:
    """Return a cell for people."""
    return " ".join(f"{factor}={value}" for factor, value in cell.items())


def runs(declared: Declaration) -> list[Run]:
    """Return all runs: by set-up, then by repeat, then in the order of the matrix.

    So what a set-up needs is started once, and what changes over time is spread over all cells.
    """
    cells = [
        dict(zip(declared.matrix, values, strict=True))
        for values in product(*declared.matrix.values())
    ]
    found = []
    for setup in dict.fromkeys(_setup(cell, declared.setup) for cell in cells):
        mine = [cell for cell in cells if _setup(cell, declared.setup) == setup]
        found += [
            Run(cell, repeat, declared.seed + repeat)
            for repeat in range(declared.repeats)
            for cell in mine
        ]
    return found


def by_setup(chosen: Iterable[Run], declared: Declaration) -> list[list[Run]]:
    """Return runs in groups that share what is started; their order stays."""
    groups = groupby(chosen, key=lambda run: _setup(run.cell, declared.setup))
    return [list(group) for _, group in groups]


def varied(declared: Declaration) -> list[str]:
    """Return the factors that have more than one value."""
    return [factor for factor, values in declared.matrix.items() if len(values) > 1]


def _setup(cell: Cell, factors: Sequence[str]) -> tuple[object, ...]:
    return tuple(cell[factor] for factor in factors)
