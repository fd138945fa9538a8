"""Requests that came before: who asks the same again gets the same answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from millrace.errors import OperationFailed
from millrace.ports import Change, Document, Store

_KIND = "request"
#: So many are remembered.
MOST = 1000


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asks, under a key of their own."""

    key: str
    #: Of all that was asked.
    sum: str


@dataclass(slots=True)
class Requests:
    """What was asked, by who asked it and their key; called under the coordinator's lock."""

    _known: dict[str, Document] = field(default_factory=dict)

    @classmethod
    def restored(cls, store: Store) -> Requests:
        """Return what a store remembers."""
        found = store.load(_KIND)
        return cls(dict(sorted(found.items(), key=lambda item: item[1]["number"])))

    def known(self, request: Request) -> str | None:
        """Return the operation that answered a request; raises for another one of its key."""
        found = self._known.get(request.key)
        if found is None:
            return None
        if found["sum"] != request.sum:
            raise OperationFailed(
                "key-used",
                "this Idempotency-Key came with another request before",
                "use a new key for each change",
            )
        return str(found["operation"])

    def remembered(self, request: Request, operation: str) -> Change:
        """Take note of an answer; returns what the store must be told, the oldest being left out.

        Where that can't be kept, the note is to be taken back: see `forget`.
        """
        number = max((known["number"] for known in self._known.values()), default=0) + 1
        document = {"sum": request.sum, "operation": operation, "number": number}
        old = list(self._known)[: max(len(self._known) + 1 - MOST, 0)]
        for key in old:
            del self._known[key]
        self._known[request.key] = document
        gone = frozenset((_KIND, key) for key in old)
        return Change({(_KIND, request.key): document}, gone)

    def forget(self, request: Request) -> None:
        """Take a note back that the store would not keep: the request may come again."""
        self._known.pop(request.key, None)
