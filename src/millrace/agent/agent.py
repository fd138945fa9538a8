"""The agent of sites: a keeper for each pipeline at each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from millrace.agent.generations import Generations
from millrace.agent.keeper import Keeper, Workshop
from millrace.ports.link import PipelineGoal, PipelineReport

#: Pieces of work side by side, over all sites.
_WORKERS = 16
#: What each site shall be, or is, for each pipeline: by pipeline and site.
Place = tuple[str, str]
#: Makes the workshop of a pipeline at a site.
WorkshopOf = Callable[[str, str], Workshop]


@dataclass(slots=True)
class Agent:
    """Makes sites what they shall be; `exchange` is called by one thread."""

    workshop: WorkshopOf
    #: The folder of a pipeline at a site.
    place: Callable[[str, str], Path]
    clock: Callable[[], float] = time.monotonic
    _keepers: dict[Place, Keeper] = field(default_factory=dict)
    _pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_WORKERS, thread_name_prefix="agent")
    )

    def exchange(self, goals: Mapping[Place, PipelineGoal]) -> dict[Place, PipelineReport]:
        """Take what sites shall be, begin what is missing, and return what they are."""
        for place in goals.keys() - self._keepers.keys():
            self._keepers[place] = self._keeper(*place)
        for place, keeper in self._keepers.items():
            keeper.tell(goals.get(place, PipelineGoal()))
            keeper.tick()
        return {place: keeper.report() for place, keeper in self._keepers.items()}

    def _keeper(self, pipeline: str, site: str) -> Keeper:
        generations = Generations(self.place(pipeline, site) / "generations.json")
        return Keeper(self.workshop(pipeline, site), generations, self._pool, self.clock)

    def close(self) -> None:
        """Let go of the threads; what runs goes on until its workshop is closed."""
        self._pool.shutdown(wait=True, cancel_futures=True)
