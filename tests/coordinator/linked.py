"""As `faked`, with failpoints on an agent's way to its coordinator, and state that really moves.

What a job keeps is a file of one line. It goes through artifacts, over HTTP where a site's agent
joined, and a job does not start without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millrace.agent import http_link
from millrace.agent.making import Surroundings
from millrace.errors import OperationFailed
from millrace.machine import Folders
from millrace.machine.failpoint import Pointed
from millrace.model.pipeline import Pipeline
from millrace.ports import JobOrder
from millrace.ports.link import Depot, JobGoal
from tests.coordinator import faked
from tests.coordinator.faked import FakedWorkshops, Shop, SleepingEngine, TellingBroker, replaced
from tests.coordinator.played import parcel_of


@dataclass
class Carrying(Shop):
    """A site that gives away what jobs keep, and takes it."""

    depot: Depot | None = None

    def parcel(self, query: str, number: int) -> str:
        assert self.depot is not None
        target = self.folder / f"{query}-{number}.parcel"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(parcel_of(query))
        return self.depot.send(target)

    def order(self, file: Pipeline, query: str, goal: JobGoal | None, around: object) -> JobOrder:
        assert isinstance(around, Surroundings)
        assert self.depot is not None
        if goal is not None and goal.brought is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            came = self.folder / f"{query}-{goal.folder}.came"
            if not came.exists():
                if around.parcel is None:
                    raise OperationFailed("no-parcel", f"{query} has not come yet", transient=True)
                assert self.depot.fetch(around.parcel).read_text() == parcel_of(query)
                came.touch()
        return super().order(file, query, goal, around)


class CarryingWorkshops(FakedWorkshops):
    """Stands for `millrace.agent.workshops.Workshops`."""

    def __init__(self, folders: Folders, depot: Depot, *_: Any, **__: Any) -> None:
        super().__init__(folders)
        self._depot = depot

    def workshop(self, pipeline: str, site: str) -> Carrying:
        shared, own = Path(faked.settings()["folder"]), self.place(pipeline, site)
        engine = SleepingEngine(folder=shared, site=site)
        return Carrying(site, own, TellingBroker(shared, site), engine, depot=self._depot)


def main() -> None:
    """Run the command with what a test wants in the place of what is real."""
    real = http_link.HttpLink
    replaced(http_link, "HttpLink", lambda *given: Pointed(real(*given), "link"))
    replaced(faked, "FakedWorkshops", CarryingWorkshops)
    faked.main()
