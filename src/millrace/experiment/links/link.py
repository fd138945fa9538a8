"""A link between two sites, as it is declared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from millrace.errors import OperationFailed
from millrace.model.quantity import Duration, Rate, Size


@dataclass(frozen=True, slots=True)
class Link:
    """Two sites, and how long and how wide the way between them is; the same both ways."""

    name: str
    sites: tuple[str, str]
    #: One way, in seconds: a round trip takes twice as long.
    latency: float = 0.0
    #: In bytes a second; None is as fast as this machine.
    bandwidth: float | None = None
    #: The share of packets that get lost; only namespaces can do that.
    loss: float = 0.0

    def document(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "name": self.name,
            "sites": list(self.sites),
            "latency": self.latency,
            "bandwidth": self.bandwidth,
            "loss": self.loss,
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Link:
        """Return the link of plain data, as `document` makes it."""
        first, second = document["sites"]
        rest = {name: document[name] for name in ("latency", "bandwidth", "loss")}
        return cls(document["name"], (first, second), **rest)


def between(links: Iterable[Link], one: str, other: str) -> Link | None:
    """Return the link of two sites, if they have one; else they are as near as can be."""
    pair = {one, other}
    return next((link for link in links if set(link.sites) == pair), None)


def seconds(text: Any, where: str) -> float:
    """Read a latency such as `18.6 ms`; raises with what was expected."""
    found = Duration.parse(str(text))
    if found is None:
        raise _wrong(where, text, Duration.EXPECTED)
    return float(found.seconds)


def bytes_a_second(text: Any, where: str) -> float | None:
    """Read a bandwidth such as `100 Mbit/s`; nothing is no bound."""
    if text is None:
        return None
    found = Rate.parse(str(text))
    if found is None or not isinstance(found.amount, Size):
        raise _wrong(where, text, "a bandwidth such as 100 Mbit/s or 2 MB/s")
    return float(found.per_second)


def share(text: Any, where: str) -> float:
    """Read a share of packets such as `0.01`; below one."""
    if isinstance(text, int | float) and not isinstance(text, bool) and 0 <= text < 1:
        return float(text)
    raise _wrong(where, text, "a share of packets such as 0.01")


def _wrong(where: str, found: Any, expected: str) -> OperationFailed:
    return OperationFailed("bad-experiment", f"{where} is {found!r}", f"write {expected}")
