"""An experiment as it is declared: what is varied, how often, over which links; what is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from millrace.errors import OperationFailed, nearest
from millrace.experiment.links import Link, Way

Value = str | int | float | bool
#: Factors with the values that they take.
Matrix = Mapping[str, tuple[Value, ...]]
#: A point of the matrix: each factor with one value.
Cell = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure that each run may give."""

    name: str
    unit: str = ""
    means: str = ""


@dataclass(frozen=True, slots=True)
class Quick:
    """What a quick look takes instead."""

    matrix: Matrix = field(default_factory=dict)
    repeats: int | None = None
    warmup: int | None = None


@dataclass(frozen=True, slots=True)
class Declaration:
    """All that an experiment is, but for the code that does it."""

    name: str
    matrix: Matrix
    measures: tuple[Measure, ...]
    #: The registered experiment whose code does it.
    of: str = ""
    title: str = ""
    about: str = ""
    #: The figure of a paper that it follows, in words and numbers.
    paper: str = ""
    #: The factors for another value of which all is started anew; the others share what runs.
    setup: tuple[str, ...] = ()
    repeats: int = 1
    #: Repeat n has the seed `seed + n`.
    seed: int = 1
    #: Runs at the beginning of each set-up that don't count.
    warmup: int = 0
    links: tuple[Link, ...] = ()
    way: Way = Way.PROXY
    quick: Quick = field(default_factory=Quick)

    def quickened(self) -> Declaration:
        """Return what a quick look is."""
        quick = self.quick
        return replace(
            self,
            matrix={**self.matrix, **quick.matrix},
            repeats=self.repeats if quick.repeats is None else quick.repeats,
            warmup=self.warmup if quick.warmup is None else quick.warmup,
        )

    def with_values(self, given: Mapping[str, Sequence[Value]]) -> Declaration:
        """Return it with other values of some factors; raises for one that it does not have."""
        for factor, values in given.items():
            known_factor(factor, self.matrix)
            if not values:
                raise OperationFailed(
                    "bad-factor", f"factor {factor} has no value", f"write --set {factor}=VALUE"
                )
        return replace(self, matrix={**self.matrix, **{n: tuple(v) for n, v in given.items()}})


def known_factor(factor: str, matrix: Matrix) -> None:
    """Raise for a factor that a matrix does not have, with the near name."""
    if factor not in matrix:
        near = nearest(factor, matrix)
        way = f"did you mean {near}?" if near else f"known are {', '.join(matrix)}"
        raise OperationFailed("bad-factor", f"there is no factor {factor!r}", way)


def number(cell: Cell, factor: str, least: float = 0, most: float = float("inf")) -> float:
    """Return a factor's value as a number; raises where it is none, or out of bounds."""
    value = cell[factor]
    if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
        return value
    bounds = f"from {least:g} on" if most == float("inf") else f"from {least:g} to {most:g}"
    raise OperationFailed(
        "bad-factor", f"{factor} is {value!r}", f"write --set {factor}=N with numbers {bounds}"
    )


def given_values(texts: Sequence[str]) -> dict[str, tuple[Value, ...]]:
    """Read `factor=v1,v2` as people type it; numbers become numbers."""
    found: dict[str, tuple[Value, ...]] = {}
    for text in texts:
        factor, sign, values = text.partition("=")
        if not sign or not factor:
            raise OperationFailed(
                "bad-factor", f"{text!r} sets no factor", "write --set FACTOR=V1,V2"
            )
        found[factor.strip()] = tuple(_value(part.strip()) for part in values.split(",") if part)
    return found


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
