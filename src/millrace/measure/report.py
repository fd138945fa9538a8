"""What a checker found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from millrace.measure.histogram import Summary

#: A record by its writer and its number.
Name = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Found:
    """How many, and the first few of them."""

    count: int = 0
    examples: tuple[Name, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"count": self.count, "examples": [list(name) for name in self.examples]}

    def __str__(self) -> str:
        names = ", ".join(f"{writer}/{seq}" for writer, seq in self.examples)
        more = ", ..." if self.count > len(self.examples) else ""
        return f"{self.count} (writer/seq {names}{more})" if names else str(self.count)


@dataclass(frozen=True, slots=True)
class Report:
    """The books of a run: `read` is `sent` - `missing` + `unexpected` + `duplicate`.

    `read` counts records of this run only; `foreign` are sound records of other runs, `corrupt`
    what is no sound record of any. `reordered` came after a later one of their key and writer;
    it, `late` and `latency` look at the first arrival of each record.
    """

    sent: int
    read: int
    missing: Found = Found()
    duplicate: Found = Found()
    reordered: Found = Found()
    unexpected: Found = Found()
    corrupt: int = 0
    late: int = 0
    foreign: int = 0
    latency: Summary = field(default_factory=Summary)

    def problems(self, most_duplicates: int = 0) -> list[str]:
        """Return what is wrong, a text each; up to `most_duplicates` are allowed."""
        texts: Sequence[tuple[bool, str]] = (
            (self.missing.count > 0, f"missing: {self.missing} of {self.sent} never arrived"),
            (
                self.duplicate.count > most_duplicates,
                f"duplicate: {self.duplicate} came again; allowed are {most_duplicates}",
            ),
            (
                self.reordered.count > 0,
                f"reordered: {self.reordered} came after a later one of their key",
            ),
            (
                self.unexpected.count > 0,
                f"unexpected: {self.unexpected} arrived and were never sent",
            ),
            (self.corrupt > 0, f"corrupt: {self.corrupt} are not as they were sent"),
            (self.late > 0, f"late: {self.late} took longer than allowed"),
        )
        return [text for wrong, text in texts if wrong]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, with no duplicates allowed."""
        return not self.problems()

    def document(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "sent": self.sent,
            "read": self.read,
            "missing": self.missing.document(),
            "duplicate": self.duplicate.document(),
            "reordered": self.reordered.document(),
            "unexpected": self.unexpected.document(),
            "corrupt": self.corrupt,
            "late": self.late,
            "foreign": self.foreign,
            "latency_seconds": self.latency.document(),
        }
