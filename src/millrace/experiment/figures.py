"""The arithmetic of results: spreads, straight lines, gains."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from millrace.experiment.results import Result

Group = TypeVar("Group", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Spread:
    """The least, the mean and the most of some figures, and how many they are."""

    least: float
    mean: float
    most: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return those of some figures, at least one."""
        return cls(min(values), sum(values) / len(values), max(values), len(values))


@dataclass(frozen=True, slots=True)
class Fit:
    """A straight line through points, and how much of their spread it explains."""

    slope: float
    base: float
    r2: float

    def at(self, place: float) -> float:
        """Return its height."""
        return self.base + self.slope * place


def fitted(places: Sequence[float], heights: Sequence[float]) -> Fit | None:
    """Return the line of least squares; None where all points are above one place."""
    count = len(places)
    if len(set(places)) < 2:
        return None
    middle, mean = sum(places) / count, sum(heights) / count
    points = list(zip(places, heights, strict=True))
    wide = sum((x - middle) ** 2 for x in places)
    slope = sum((x - middle) * (y - mean) for x, y in points) / wide
    base = mean - slope * middle
    left = sum((y - base - slope * x) ** 2 for x, y in points)
    spread = sum((y - mean) ** 2 for y in heights)
    return Fit(slope, base, 1 - left / spread if spread else 1.0)


def spreads(
    results: Iterable[Result], measure: str, group: Callable[[Result], Group]
) -> dict[Group, Spread]:
    """Return the spread of a measure by group, in the order of the results; failures left out."""
    found: dict[Group, list[float]] = {}
    for result in results:
        if measure in result.values:
            found.setdefault(group(result), []).append(result.values[measure])
    return {name: Spread.of(values) for name, values in found.items()}


def apart(results: Sequence[Result], within: Iterable[str]) -> dict[str, list[Result]]:
    """Return results that are to be compared, by the values of all factors but those `within`.

    Each has a name for people, of the factors that differ; an empty one where none does.
    """
    left_out = set(within)
    others = [factor for factor in (results[0].cell if results else ()) if factor not in left_out]
    differ = [
        factor for factor in others if len({str(result.cell[factor]) for result in results}) > 1
    ]
    found: dict[str, list[Result]] = {}
    for result in results:
        name = ", ".join(f"{factor} {result.cell[factor]}" for factor in differ)
        found.setdefault(name, []).append(result)
    return found


def fit_of_means(points: Mapping[float, Spread]) -> Fit | None:
    """Return the straight line through the means."""
    return fitted(list(points), [spread.mean for spread in points.values()])


def gain(fog: float, cloud: float) -> float:
    """Return SpecK's differential output rate, D = (100 / F) (F - C), in percent of F."""
    return 100 / fog * (fog - cloud)
