"""The code of the benchmark's jobs in Python."""

from __future__ import annotations

from typing import Any


class Counted:
    """Counts the records of a road."""

    n: int = 0

    def on_record(self, record: dict[str, Any], _: Any) -> dict[str, Any]:
        """Return how many there were."""
        self.n += 1
        return {"road": record["road"], "n": self.n}


def fast(record: dict[str, Any]) -> dict[str, Any] | None:
    """Return what is of interest of a fast vehicle."""
    if record["speed"] > 50:
        return {"id": record["id"], "speed": record["speed"], "road": record["road"]}
    return None
