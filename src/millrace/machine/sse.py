"""Server-sent events: the lines of a stream as events, without a connection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from millrace.errors import OperationFailed

#: An event of ours is far smaller; who sends more is no coordinator.
MOST_BYTES = 4 << 20


@dataclass(slots=True)
class Decoder:
    """Takes bytes as they come and gives events: (event, id or None, data).

    Lines end where the standard says, and nowhere else: a text may hold other ends of lines.
    """

    _rest: bytes = b""
    _event: str = ""
    _identity: str | None = None
    _data: list[str] = field(default_factory=list)
    _size: int = 0

    def feed(self, piece: bytes) -> Iterator[tuple[str, str | None, str]]:
        """Give the events that are whole with these bytes."""
        # A \r at the end may be half of \r\n, so it waits for what follows.
        text = self._rest + piece
        cut = text.endswith(b"\r")
        lines = (text[:-1] if cut else text).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *whole, rest = lines.split(b"\n")
        self._rest = rest + (b"\r" if cut else b"")
        for line in whole:
            found = self._line(line.decode("utf-8", "replace"))
            if found is not None:
                yield found
        if len(self._rest) + self._size > MOST_BYTES:
            raise OperationFailed(
                "too-large",
                f"an event of more than {MOST_BYTES >> 20} MiB came",
                "is there a coordinator of Millrace at this address?",
            )

    def _line(self, line: str) -> tuple[str, str | None, str] | None:
        if not line:
            return self._dispatched()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._identity = value
        elif name == "data":
            self._data.append(value)
            self._size += len(value)
        return None

    def _dispatched(self) -> tuple[str, str | None, str] | None:
        found = None
        if self._data:
            found = (self._event or "message", self._identity, "\n".join(self._data))
        self._event, self._identity, self._data, self._size = "", None, [], 0
        return found
