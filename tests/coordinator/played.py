"""A coordinator over sites of fakes in a process of its own, to be killed (see `forked`).

What runs is told by locks on files: they end with the process, as jobs of a site's agent do. A job
that is started while another instance of it runs writes that down as a violation.
"""
# ruff: noqa: ARG002 - fakes have the arguments of what they stand for

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from millrace.agent.agent import Agent
from millrace.agent.making import Surroundings, Workshop
from millrace.agent.pointed import pointed
from millrace.coordinator.revision import Submission
from millrace.coordinator.rounds import Bell, Rounds
from millrace.coordinator.service import Clocks, Coordinator
from millrace.coordinator.tenure import Around, Holder, take
from millrace.errors import OperationFailed
from millrace.machine.failpoint import Pointed
from millrace.model.pipeline import Pipeline
from millrace.plan.fuse import as_queries
from millrace.ports import JobOrder, Progress
from millrace.ports.link import Depot, JobGoal
from millrace.spec import load
from millrace.stores.artifacts import Artifacts, LocalDepot
from millrace.stores.sqlite import SqliteStore
from millrace.testing.fakes import FakeBroker, FakeEngine


@dataclass
class LockedEngine(FakeEngine):
    """An engine whose jobs hold a lock while they run, all sites over."""

    folder: Path = field(default_factory=Path)
    site: str = ""
    held: dict[str, IO[str]] = field(default_factory=dict)

    def start(self, order: JobOrder) -> None:
        name = order.job.name
        if name not in self.held:
            file = (self.folder / f"{name}.lock").open("a+")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                with (self.folder / "violations").open("a") as out:
                    out.write(f"{name} at {self.site}\n")
            self.held[name] = file
        super().start(order)

    def stop(self, job: str, ends: Any = None) -> None:
        super().stop(job, ends)
        if job in self.held:
            self.held.pop(job).close()


@dataclass
class Shop:
    """A site of fakes."""

    site: str
    folder: Path
    depot: Depot
    kafka: FakeBroker = field(default_factory=FakeBroker)

    def __post_init__(self) -> None:
        self.spark = LockedEngine(folder=self.folder, site=self.site)

    def broker(self, file: Pipeline) -> FakeBroker:
        return self.kafka

    def engine(self, file: Pipeline, query: str) -> FakeEngine:
        return self.spark

    def order(
        self, file: Pipeline, query: str, goal: JobGoal | None, around: Surroundings
    ) -> JobOrder:
        if goal is not None and goal.brought is not None:
            if around.parcel is None:
                raise OperationFailed("no-parcel", f"{query} has not come yet", transient=True)
            assert self.depot.fetch(around.parcel).read_text() == parcel_of(query)
        job = as_queries(file).jobs[query]
        return JobOrder(file, job, {}, self.folder, self.folder, job.members)

    def ends(self, file: Pipeline, stream: str, around: Surroundings) -> dict[int, int]:
        return {}

    def parcel(self, query: str, number: int) -> str:
        target = self.folder / f"{self.site}-{query}.parcel"
        target.write_text(parcel_of(query))
        return self.depot.send(target)

    def log(self, file: Pipeline, query: str) -> Path:
        return self.folder / "log"

    def halt(self) -> None:
        self.spark.close()

    def kill(self) -> None:
        self.close()

    def close(self) -> None:
        self.kafka.stop()

    def progress(self, file: Pipeline, query: str, goal: JobGoal) -> dict[str, Progress]:
        return {}


def parcel_of(query: str) -> str:
    """What a query keeps."""
    return f"what {query} keeps"


@contextmanager
def playing(home: Path) -> Iterator[tuple[Rounds, dict[str, Shop]]]:
    """Give a coordinator on the state of a home, and the sites that it has made so far."""
    shops: dict[str, Shop] = {}
    depot = cast("Depot", Pointed(LocalDepot(Artifacts(home / "artifacts")), "depot"))

    def shop(_: str, site: str) -> Workshop:
        return pointed(shops.setdefault(site, Shop(site, home, depot)))

    agent = Agent(shop, lambda _, site: home / site)
    around = Around(lambda _: False, time.monotonic, time.sleep)
    tenure = take(SqliteStore(home / "state.db"), Holder("here", os.getpid(), time.time()), around)
    coordinator = Coordinator(tenure, Clocks(time.time, time.monotonic), patience=20)
    yield (
        Rounds(coordinator, agent, Bell(), lambda _, goal: goal, lambda _, __: True, lambda: None),
        shops,
    )
    agent.close()


def main() -> None:
    """Apply files one after another, or go on with what is there; then say what runs."""
    home, files = Path(sys.argv[1]), sys.argv[2:]
    with playing(home) as (rounds, shops):
        for file in files:
            apply(rounds, file)
        if not files:
            settle(rounds)
        running = sorted((name, site) for site, one in shops.items() for name in one.spark.held)
        (home / "running.json").write_text(json.dumps(running))


def apply(rounds: Rounds, file: str) -> None:
    """Apply a file and wait for the end of it."""
    rounds.coordinator.apply(Submission(load(file).required()))
    settle(rounds)


def settle(rounds: Rounds) -> None:
    """Go on until the change is over and the sites are as it says."""
    until, coordinator = time.monotonic() + 30, rounds.coordinator
    while time.monotonic() < until:
        rounds.round()
        boards = coordinator.boards.values()
        reports = [coordinator.roster.reports(board.name) for board in boards]
        jobs = [j for one in reports for report in one.values() for j in report.jobs.values()]
        over = all(board.operation and not board.busy for board in boards)
        if over and all(job.state == "running" for job in jobs):
            return
        time.sleep(0.002)
    raise SystemExit(f"not settled: {[board.operation for board in coordinator.boards.values()]}")
