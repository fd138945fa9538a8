"""The code of the benchmark's `map` job."""

from __future__ import annotations

from typing import Any


def fast(record: dict[str, Any]) -> dict[str, Any] | None:
    """Return what is of interest of a fast vehicle."""
    if record["speed"] > 50:
        return {"id": record["id"], "speed": record["speed"], "road": record["road"]}
    return None
