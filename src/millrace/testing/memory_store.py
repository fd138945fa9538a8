"""A store in memory: what simulations use, thousands of which run in a minute."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from millrace.ports import Change, Conflict, Document, Entry
from millrace.ports.store import Key


@dataclass(slots=True)
class MemoryStore:
    """See the port. What was given to it can't be changed from outside any more."""

    clock: Callable[[], float] = lambda: 0.0
    _documents: dict[Key, Document] = field(default_factory=dict)
    _journal: list[Entry] = field(default_factory=list)
    _last: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self, kind: str) -> dict[str, Document]:
        """Return the documents of a kind; see the port."""
        with self._lock:
            found = {name: doc for (of, name), doc in self._documents.items() if of == kind}
            return copy.deepcopy(found)

    def commit(self, change: Change) -> int:
        """Make a change; see the port."""
        with self._lock:
            for key, expected in change.expects.items():
                if (found := self._documents.get(key)) != expected:
                    raise Conflict(key, found)
            for key in change.gone:
                self._documents.pop(key, None)
            self._documents |= copy.deepcopy(dict(change.puts))
            for entry in change.entries:
                self._last += 1
                self._journal.append(replace(entry, number=self._last, at=self.clock()))
            return self._last

    def entries(self, after: int, most: int) -> list[Entry]:
        """Return entries of the journal; see the port."""
        with self._lock:
            return [entry for entry in self._journal if entry.number > after][:most]

    def compact(self, before: int) -> None:
        """Forget entries of the journal; see the port."""
        with self._lock:
            self._journal = [entry for entry in self._journal if entry.number >= before]

    def close(self) -> None:
        """Do nothing: the next one begins empty."""
