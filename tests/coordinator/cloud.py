"""A coordinator in this process over sites with a Kafka and a Spark each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from millrace.agent.agent import Agent
from millrace.agent.brokers import site_place
from millrace.agent.workshop import SiteWorkshop
from millrace.coordinator.operation import Operation
from millrace.coordinator.revision import Submission
from millrace.coordinator.rounds import Bell, Rounds
from millrace.coordinator.service import Clocks, Coordinator
from millrace.coordinator.tenure import Around, Holder, take
from millrace.errors import OperationFailed
from millrace.machine import Folders
from millrace.model.pipeline import Pipeline
from millrace.ports import JobState, Log
from millrace.stores.artifacts import Artifacts, LocalDepot
from millrace.stores.sqlite import SqliteStore

LIMIT = 180.0


@dataclass
class Depot:
    """A depot of which nothing can be had while it is lost."""

    local: LocalDepot
    lost: bool = False

    def fetch(self, artifact: str) -> Path:
        if self.lost:
            raise OperationFailed("no-artifact", "the disk with artifacts is gone")
        return self.local.fetch(artifact)

    def send(self, file: Path) -> str:
        return self.local.send(file)


@dataclass
class Cloud:
    """A coordinator, in this process, with the sites of one pipeline."""

    folders: Folders
    file: Path
    shops: dict[str, SiteWorkshop] = field(default_factory=dict)
    coordinator: Coordinator | None = None
    rounds: Rounds = field(init=False)
    depot: Depot = field(init=False)

    def up(self) -> Coordinator:
        depot = self.depot = Depot(LocalDepot(Artifacts(self.folders.state / "artifacts")))

        def workshop(pipeline: str, site: str) -> SiteWorkshop:
            shop = SiteWorkshop(pipeline, site, self.folders, lambda: None, depot)
            return self.shops.setdefault(site, shop)

        agent = Agent(workshop, lambda pipeline, site: site_place(self.folders, pipeline, site))
        around = Around(lambda _: False, time.monotonic, time.sleep)
        tenure = take(SqliteStore(self.file), Holder("here", 1, 0.0), around)
        made = Coordinator(tenure, Clocks(time.time, time.monotonic))
        self.rounds = Rounds(
            made, agent, Bell(), lambda _, goal: goal, lambda _, __: True, lambda: None
        )
        self.coordinator = made
        return made

    def apply(self, wanted: Pipeline, code: str | None = None) -> Operation:
        assert self.coordinator is not None
        begun = self.coordinator.apply(Submission(wanted, code=code))
        until = time.monotonic() + LIMIT
        while not (found := self.coordinator.operation(begun.id)).state.over:
            assert time.monotonic() < until, found
            self.rounds.round()
            time.sleep(0.05)
        return found

    def wait_for(self, log: Log, count: int, stream: str = "out") -> None:
        """Go on until there are so many results."""
        assert self.coordinator is not None
        until = time.monotonic() + LIMIT
        while sum(span.end for span in log.ends(stream).values()) < count:
            assert time.monotonic() < until, (log.ends(stream), self.coordinator.boards)
            self.rounds.round()
            time.sleep(0.05)

    def runs(self) -> set[tuple[str, str]]:
        return {
            (name, site)
            for site, shop in self.shops.items()
            for driver in shop.drivers.all
            for name, status in driver.status().items()
            if status.state is JobState.RUNNING
        }


@contextmanager
def clouded(folders: Folders, place: Path) -> Iterator[Cloud]:
    """Give one in a folder; its sites are closed afterwards, all at once."""
    own = Folders(place / "home", folders.cache)
    made = Cloud(own, place / "state.db")
    made.up()
    try:
        yield made
    finally:
        with ThreadPoolExecutor() as pool:
            list(pool.map(SiteWorkshop.close, made.shops.values()))
