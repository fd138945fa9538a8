"""Aggregates that can be put together from parts: count, sum, mean, min, max."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millrace.errors import OperationFailed

_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
_NAMES = {"count": "count", "sum": "sum", "avg": "mean", "mean": "mean", "min": "min", "max": "max"}


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One column of a window's result; `argument` is its place among all of them, if any."""

    name: str
    function: str
    argument: int | None


@dataclass(frozen=True, slots=True)
class Aggregates:
    """The columns of a window's result and what they are worked out from."""

    columns: tuple[Aggregate, ...]
    #: As Spark's SQL says them.
    arguments: tuple[str, ...]

    def uses(self, argument: int, *functions: str) -> bool:
        """Whether one of these functions needs an argument."""
        return any(c.argument == argument and c.function in functions for c in self.columns)


def parsed(job: str, declared: Mapping[str, str]) -> Aggregates:
    """Return the aggregates of a job; raises for what can't be put together from parts."""
    arguments: list[str] = []
    columns = []
    for name, said in declared.items():
        match = _CALL.fullmatch(said)
        function = _NAMES.get(match[1].lower()) if match else None
        inner = match[2].strip() if match else ""
        if function is None or _distinct(inner) or (not inner and function != "count"):
            raise OperationFailed(
                "no-exact-aggregate",
                f"job {job}: {name}: {said!r} can't be worked out exactly in parts",
                "use count(*), count(x), sum(x), mean(x), min(x) or max(x), or leave out `late`",
            )
        if function == "count" and inner in ("", "*"):
            columns.append(Aggregate(name, function, None))
            continue
        if inner not in arguments:
            arguments.append(inner)
        columns.append(Aggregate(name, function, arguments.index(inner)))
    return Aggregates(tuple(columns), tuple(arguments))


def _distinct(inner: str) -> bool:
    return inner.lower().startswith("distinct ")


def kinds(types: Sequence[str], job: str, aggregates: Aggregates) -> tuple[str, ...]:
    """Return `long` or `double` for each argument, by the type that Spark says it has."""
    found = []
    for argument, said in zip(types, aggregates.arguments, strict=True):
        if argument in ("tinyint", "smallint", "int", "bigint"):
            found.append("long")
        elif argument in ("float", "double"):
            found.append("double")
        else:
            raise OperationFailed(
                "no-exact-aggregate",
                f"job {job}: {said} is {argument}, and exact windows add up whole numbers and "
                "doubles",
                f"write CAST({said} AS DOUBLE), or leave out `late`",
            )
    return tuple(found)
