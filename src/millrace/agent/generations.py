"""The highest generation of each query that was started at a site: lower ones come too late."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from millrace.errors import OperationFailed


@dataclass(slots=True)
class Generations:
    """Kept in a file, so that an agent that begins anew refuses what its predecessor would have."""

    file: Path
    _lock: Lock = field(default_factory=Lock)

    def claim(self, query: str, generation: int) -> None:
        """Take note that a query is started; raises for a generation that is over."""
        with self._lock:
            known = self._read()
            if generation < known.get(query, 0):
                raise OperationFailed(
                    "superseded",
                    f"{query} was started by a later order than this one ({generation} is over)",
                    "nothing is to be done: the order was late",
                )
            if generation == known.get(query):
                return
            fresh = self.file.with_suffix(".new")
            self.file.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(json.dumps({**known, query: generation}), encoding="utf-8")
            fresh.replace(self.file)

    def _read(self) -> dict[str, int]:
        try:
            found: dict[str, int] = json.loads(self.file.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        return found
