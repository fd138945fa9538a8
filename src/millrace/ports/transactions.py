"""Batches that are in a broker's logs wholly, and once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

#: Address of a stream, key, value, headers, and the partition, if it is chosen already.
Row = tuple[str, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int | None]


class Transactions(Protocol):
    """A writer with a name: whoever opens one of that name later shuts this one out."""

    def open(self) -> None:
        """Shut predecessors out; called before all else.

        Returning promises that nothing which they had not committed will ever be seen.
        """
        ...

    def has(self, mark: str, streams: Iterable[str], since: int) -> bool:
        """Return whether a batch with that mark was committed since a time, in milliseconds."""
        ...

    def write(self, mark: str, rows: Iterable[Row]) -> int:
        """Write a batch and return how many rows it has.

        Returning promises that all of them are there, raising that none of them is, or that they
        are and `has` says so.
        """
        ...

    def close(self) -> None:
        """Let go of the broker."""
        ...


class TransactionsOf(Protocol):
    """Makes writers: of a name, for a broker's client settings, and sizes in bytes."""

    def __call__(
        self, name: str, settings: Mapping[str, str], largest: int, least: int
    ) -> Transactions:
        """Return a writer that is not open yet.

        `largest` is what a record may have, `least` what one of the stream with the least may.
        """
        ...
