"""A problem as data: where, what was found, what was expected, and what to do."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, replace
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

    def cut(self) -> Diagnostic:
        """Return it with texts short enough to show."""
        if len(self.message) + len(self.found) + len(self.expected) + len(self.hint) <= MOST_TEXT:
            return self
        short = {
            key: text if len(text := getattr(self, key)) <= MOST_TEXT else text[:MOST_TEXT] + "..."
            for key in ("message", "found", "expected", "hint")
        }
        return replace(self, **short)


#: Names that a wrong one is compared with, those of the same first or last letters first.
MOST_CANDIDATES = 400
#: Texts of a problem are cut behind this many characters.
MOST_TEXT = 600
#: More problems than this help nobody; the rest are counted.
MOST_PROBLEMS = 200


@dataclass(slots=True)
class Problems:
    """Collects diagnostics, so that a user sees all of them at once."""

    items: list[Diagnostic] = field(default_factory=list)
    left_out: int = 0
    #: Something could not be had because of a problem that was told elsewhere.
    failed_silently: bool = False
    _seen: set[Diagnostic] = field(default_factory=set)

    def add(self, diagnostic: Diagnostic) -> None:
        """Keep a problem once; beyond MOST_PROBLEMS only count it."""
        if self.full:
            self.left_out += 1
            return
        diagnostic = diagnostic.cut()
        if diagnostic in self._seen:
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
    def total(self) -> int:
        """How many were told, those that are only counted included."""
        return len(self.items) + self.left_out

    @property
    def full(self) -> bool:
        """Whether further ones are only counted, so that nobody needs to word them well."""
        return len(self.items) >= MOST_PROBLEMS

    def nearest(self, name: str, known: Iterable[str]) -> str:
        """Return the near name for a message, unless nobody will read it."""
        return "" if self.full else nearest(name, known)

    @property
    def failed(self) -> bool:
        """Whether any of them is an error."""
        return self.failed_silently or any(item.severity is Severity.ERROR for item in self.items)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.items)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that `name` was most likely meant to be, or ''."""
    if not 0 < len(name) <= 200:  # the comparison is quadratic, and nobody mistypes that much
        return ""
    lowered: dict[str, str] = {}
    least, most = len(name) * 0.5, len(name) * 2
    for candidate in known:
        low = candidate.lower()
        alike = low[:1] == name[:1].lower() or low[-2:] == name[-2:].lower()
        if least <= len(candidate) <= most and (alike or len(lowered) < MOST_CANDIDATES // 2):
            lowered.setdefault(low, candidate)
        if len(lowered) >= MOST_CANDIDATES:
            break
    cutoff = 0.6 if len(name) > 3 else 0.5  # one letter of two is half of them
    match = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=cutoff)
    return lowered[match[0]] if match else ""
