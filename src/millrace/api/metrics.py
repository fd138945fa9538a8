"""Numbers of all jobs, worked out once for all who look at them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from millrace.api.lanes import Lanes
from millrace.coordinator.station import Station

#: Numbers are not younger than this for who asks more often.
_FRESH_SECONDS = 0.5


@dataclass(slots=True)
class Metrics:
    """What jobs do now. Called in the event loop."""

    station: Station
    lanes: Lanes
    _found: Sequence[dict[str, Any]] = ()
    _at: float | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def jobs(self) -> Sequence[dict[str, Any]]:
        """Return the numbers of each job."""
        async with self._lock:
            now = time.monotonic()
            if self._at is None or now - self._at > _FRESH_SECONDS:
                self._found = await self.lanes.look(self._look)
                self._at = now
        return self._found

    def _look(self) -> list[dict[str, Any]]:
        boards = self.station.coordinator.boards
        return [
            {
                "pipeline": job.pipeline,
                "name": job.name,
                "state": job.state,
                "rows_per_second": job.rows_per_second,
                "lag": job.lag,
                "batch": job.batch,
            }
            for name, board in sorted(boards.items())
            if not board.removed
            for job in self.station.jobs(name)
        ]
