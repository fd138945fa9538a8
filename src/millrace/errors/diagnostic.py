"""A problem as data: where, what was found, what was expected, and what to do."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A place in a file; lines and columns count from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Severity(StrEnum):
    """An error stops; a warning is shown and the work goes on."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem. `code` is stable and made for programs, the rest for people."""

    code: str
    message: str
    at: Location | None = None
    found: str = ""
    expected: str = ""
    nearest: str = ""
    hint: str = ""
    severity: Severity = Severity.ERROR
    related: tuple[tuple[Location, str], ...] = ()


#: More problems than this help nobody; the rest are counted.
MOST_PROBLEMS = 200


@dataclass(slots=True)
class Problems:
    """Collects diagnostics, so that a user sees all of them at once."""

    items: list[Diagnostic] = field(default_factory=list)
    left_out: int = 0
    _seen: set[Diagnostic] = field(default_factory=set)

    def add(self, diagnostic: Diagnostic) -> None:
        """Keep a problem once; beyond MOST_PROBLEMS only count it."""
        if diagnostic in self._seen:
            return
        if len(self.items) >= MOST_PROBLEMS:
            self.left_out += 1
            return
        self._seen.add(diagnostic)
        self.items.append(diagnostic)

    def error(
        self,
        code: str,
        message: str,
        at: Location | None = None,
        *,
        found: str = "",
        expected: str = "",
        nearest: str = "",
        hint: str = "",
    ) -> None:
        """Keep an error, given by its parts."""
        self.add(Diagnostic(code, message, at, found, expected, nearest, hint))

    @property
    def failed(self) -> bool:
        """Whether any of them is an error."""
        return any(item.severity is Severity.ERROR for item in self.items)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.items)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that `name` was most likely meant to be, or ''."""
    if len(name) > 200:  # difflib is quadratic; nobody mistypes that much
        return ""
    lowered: dict[str, str] = {}
    for candidate in known:
        if len(candidate) <= 200 and len(lowered) < 2_000:
            lowered.setdefault(candidate.lower(), candidate)
    cutoff = 0.6 if len(name) > 3 else 0.5  # one letter of two is half of them
    match = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=cutoff)
    return lowered[match[0]] if match else ""
