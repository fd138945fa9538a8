"""How a query names what it counts of its records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: How counts of records are named, before the name of their stream: all, and those too old.
IN, OLD = "in:", "old:"
#: Between a stream's name and the one that it has in the job's code.
AS = "#"
#: How the mean skew of records is named among the counts of an input.
SKEW = "skew"


def counts_of(observed: Mapping[str, Any], kind: str, stream: str) -> list[Mapping[str, Any]]:
    """Return what a query counted of a stream: once for each time that it is read."""
    whole = f"{kind}{stream}"
    return [
        counts or {}
        for name, counts in observed.items()
        if name == whole or name.startswith(f"{whole}{AS}")
    ]
