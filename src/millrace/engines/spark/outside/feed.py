"""What a source beside brokers can do: tell how far it is, and read what lies between."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from millrace.errors import OperationFailed

#: By name and part, whole numbers. Spark keeps them; the ones under the feed's own name tell how
#: many records lie before, as a topic's would; others are what it needs to find them again.
Ends = dict[str, dict[str, int]]
#: How many bytes or rows a batch holds at most, about.
MOST_BYTES, MOST_ROWS = 64 * 1024 * 1024, 500_000


@dataclass(frozen=True, slots=True)
class Part:
    """Some records of a source that one task reads."""

    number: int
    #: The position of its first record.
    first: int
    #: What the feed needs to find them.
    about: Mapping[str, Any]
    #: When the batch was cut, in microseconds.
    at: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A record as it comes in; its time in microseconds.

    Positions of a part only grow, and each is of one record: a resumed job goes by them.
    """

    position: int
    value: bytes
    time: int
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


class SourceFailed(OperationFailed):
    """A source can't be read on, and trying again does not help: the message says what does.

    Spark tells only its name and its text, by which `errors` knows it.
    """

    def __init__(self, message: str) -> None:
        super().__init__("source-failed", message)


class Feed(Protocol):
    """A source beside brokers, read by positions; what was read can be read again."""

    def begin(self) -> Ends:
        """Return where a first reader begins."""
        ...

    def latest(self, start: Ends) -> Ends:
        """Return up to where there is something to read, `start` itself where nothing is new."""
        ...

    def freeze(self) -> None:
        """From now on, act as if nothing more came."""
        ...

    def close(self) -> None:
        """Nobody asks any more."""
        ...

    def parts(self, start: Ends, end: Ends) -> Sequence[Part]:
        """Return what lies between."""
        ...

    def records(self, part: Part) -> Iterator[Entry]:
        """Return the records of a part; raises where they are gone."""
        ...


@runtime_checkable
class Forgetful(Protocol):
    """A feed that need not keep what is committed."""

    def committed(self, ends: Ends) -> None:
        """All up to there is committed: nobody reads it again."""
        ...


def at_name(name: str) -> str:
    """Return under which name a feed notes when a batch was cut."""
    return f"{name} at"


def end_name(name: str) -> str:
    """Return under which name a feed notes that nothing comes after."""
    return f"{name} end"


def ended(ends: Mapping[str, Any], name: str) -> bool:
    """Whether nothing comes after these ends."""
    return end_name(name) in ends


def now() -> int:
    """Return the time of now, in microseconds."""
    return time.time_ns() // 1000
