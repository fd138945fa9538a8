"""What was ordered of each query at a site, so that what comes late or twice is known."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from millrace.errors import OperationFailed
from millrace.machine.failpoint import reach


@dataclass(slots=True)
class Generations:
    """The highest generation of each query that was started, and the last that was read to its end.

    Kept in a file, so that an agent that begins anew refuses what its predecessor would have. A
    coordinator of a higher generation counts anew: its state may be from an older copy.
    """

    file: Path
    #: The generation of the coordinator whose orders these are.
    under: int = 0
    _known: dict[str, dict[str, int]] | None = None
    _lock: Lock = field(default_factory=Lock)

    def claim(self, query: str, generation: int) -> None:
        """Take note that a query is started; raises for a generation that is over."""
        with self._lock:
            known = self._read()
            last, by = known["started"].get(query), known["by"].get(query, 0)
            if last is not None and generation < last and self.under <= by:
                raise OperationFailed(
                    "superseded",
                    f"{query} was started by a later order than this one ({generation} is over), "
                    f"of a coordinator of generation {by}",
                    f"nothing is to be done if this order was late; {way_above(by)}",
                )
            by = max(by, self.under)
            if (generation, by) != (last, known["by"].get(query, 0)) or query in known["drained"]:
                drained = {name: at for name, at in known["drained"].items() if name != query}
                started = {**known["started"], query: generation}
                owners = {**known["by"], query: by}
                self._write({"started": started, "drained": drained, "by": owners})

    def note_drained(self, query: str, generation: int) -> None:
        """Take note that a query has read all that it was to read before it stopped."""
        with self._lock:
            known = self._read()
            self._write({**known, "drained": {**known["drained"], query: generation}})

    def drained(self, query: str, generation: int) -> bool:
        """Whether the query of that generation had read all when it stopped."""
        with self._lock:
            return self._read()["drained"].get(query) == generation

    def _read(self) -> dict[str, dict[str, int]]:
        if self._known is None:
            found: dict[str, Any] = {}
            if self.file.exists():
                found = json.loads(self.file.read_text("utf-8"))
            self._known = {kind: found.get(kind, {}) for kind in ("started", "drained", "by")}
        return self._known

    def _write(self, known: dict[str, dict[str, int]]) -> None:
        fresh = self.file.with_suffix(".new")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps(known), encoding="utf-8")
        reach("generations.write.before")
        fresh.replace(self.file)
        reach("generations.write.after")
        self._known = known


def way_above(generation: int) -> str:
    """Return what to do where a coordinator is not obeyed because of one of a generation."""
    return (
        "if that coordinator is gone for good, and the state of this one is an older copy: "
        f"millrace up --generation-above {generation}"
    )
