"""A log: what `send`, `tail`, the checker and a successor that looks for its predecessor use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a stream. `partition` None lets the key decide; `time` is in milliseconds."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None
    position: int = -1
    time: int | None = None

    def header(self, name: str) -> bytes | None:
        """Return the last header of a name, if there is one."""
        return next((value for key, value in reversed(self.headers) if key == name), None)


@dataclass(frozen=True, slots=True)
class Span:
    """What a partition holds: from `first` up to, and without, `end`."""

    first: int
    end: int


class Log(Protocol):
    """Reads and writes streams by their names on one broker."""

    def write(self, stream: str, records: Iterable[Record]) -> int:
        """Append records; returns how many.

        Returning promises that the broker has acknowledged all of them. After raising any part of
        them may be there.
        """
        ...

    def read(
        self,
        stream: str,
        start: Mapping[int, int],
        until: Mapping[int, int] | None = None,
        wait: float = 1.0,
    ) -> Iterator[Record]:
        """Yield records from the positions of `start`, partition by partition in their order.

        Ends before the positions of `until`; without it, when nothing came for `wait` seconds.
        Positions below the first that is kept begin there.
        """
        ...

    def ends(self, stream: str) -> Mapping[int, Span]:
        """Return what each partition holds now; raises where the stream is not there."""
        ...

    def since(self, stream: str, time: int) -> Mapping[int, int]:
        """Return for each partition the first position whose time is `time` (ms) or later.

        A partition that has none gets its end.
        """
        ...

    def last(self, stream: str, time: int, most: int) -> Sequence[Record] | None:
        """Return what is there now from the positions of `since` on.

        None where that is more than `most` records, or more than is held in memory.
        """
        ...


class LogOf(Protocol):
    """Gives the log of a broker."""

    def __call__(self, settings: Mapping[str, str]) -> Log:
        """Return the log that is reached by a client's settings."""
        ...
