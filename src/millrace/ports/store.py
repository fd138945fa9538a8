"""A store: what a coordinator must not forget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from millrace.errors import OperationFailed

#: A document is plain data, ready for JSON; its key is a kind and a name.
Document = Mapping[str, Any]
Key = tuple[str, str]


class EntryKind(StrEnum):
    """What an entry of the journal tells: what was ordered, what it did, how all of it ended."""

    INTENT = "intent"
    EFFECT = "effect"
    RESULT = "result"
    EVENT = "event"


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the journal; `number` and `at`, in seconds since the epoch, are the store's."""

    kind: EntryKind
    about: str
    detail: Document = field(default_factory=dict)
    number: int = 0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Change:
    """Documents to be written and removed, and what the journal tells of it: all, or nothing.

    `expects` are documents as they must be found, or None for one that must not be there.
    """

    puts: Mapping[Key, Document] = field(default_factory=dict)
    gone: frozenset[Key] = frozenset()
    entries: tuple[Entry, ...] = ()
    expects: Mapping[Key, Document | None] = field(default_factory=dict)

    def __add__(self, other: Change) -> Change:
        """Return both as one; of a document that both are about, the other's word counts."""
        puts = {key: value for key, value in self.puts.items() if key not in other.gone}
        return Change(
            {**puts, **other.puts},
            (self.gone - other.puts.keys()) | other.gone,
            (*self.entries, *other.entries),
            {**other.expects, **self.expects},
        )


class Conflict(OperationFailed):
    """A document was not as a change expected it: somebody else was first."""

    def __init__(self, key: Key, found: Document | None) -> None:
        self.key = key
        self.found = found
        kind, name = key
        super().__init__("conflict", f"{kind} {name} was changed by somebody else meanwhile")


class Store(Protocol):
    """Documents and a journal that survive a crash at any moment. Any thread may call."""

    def load(self, kind: str) -> Mapping[str, Document]:
        """Return the documents of a kind by name."""
        ...

    def commit(self, change: Change) -> int:
        """Make a change and return the number of the journal's last entry.

        Returning promises that it is on the disk, raising that nothing of it is. Raises `Conflict`
        where something is not as expected.
        """
        ...

    def entries(self, after: int, most: int) -> Sequence[Entry]:
        """Return the journal's entries behind a number, oldest first."""
        ...

    def compact(self, before: int) -> None:
        """Forget the journal's entries before a number, and give their room back."""
        ...

    def close(self) -> None:
        """Let go of the files; what was committed is there."""
        ...
