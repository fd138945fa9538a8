"""A coordinator over sites of fakes in a process of its own, to be killed: `python -m ...`.

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from millrace.agent.agent import Agent
from millrace.coordinator.service import Coordinator
from millrace.coordinator.tenure import Around, Holder, take
from millrace.machine.failpoint import Pointed
from millrace.model.pipeline import Pipeline
from millrace.plan.fuse import as_queries
from millrace.ports import JobOrder, Progress
from millrace.ports.link import JobGoal
from millrace.spec import load
from millrace.stores.sqlite import SqliteStore
from millrace.testing.fakes import FakeBroker, FakeEngine

#: Methods of ports that change nothing.
LOOKS = frozenset({"status", "examine", "log", "ends", "read", "since", "load", "entries"})


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
    kafka: FakeBroker = field(default_factory=FakeBroker)

    def __post_init__(self) -> None:
        self.spark = LockedEngine(folder=self.folder, site=self.site)

    def broker(self, file: Pipeline) -> Any:
        return Pointed(self.kafka, "broker", LOOKS)

    def engine(self, file: Pipeline, query: str) -> Any:
        return Pointed(self.spark, "engine", LOOKS)

    def order(self, file: Pipeline, query: str, goal: JobGoal | None) -> JobOrder:
        job = as_queries(file).jobs[query]
        return JobOrder(file, job, {}, self.folder, self.folder, job.members)

    def ends(self, file: Pipeline, stream: str) -> dict[int, int]:
        return {}

    def progress(self, file: Pipeline, query: str, goal: JobGoal) -> Progress:
        return Progress()


def main(home: Path, *files: str) -> None:
    """Apply files one after another, or go on with what is there; then say what runs."""
    shops: dict[str, Shop] = {}

    def shop(_: str, site: str) -> Shop:
        return shops.setdefault(site, Shop(site, home))

    agent = Agent(shop, lambda _, site: home / site)
    around = Around(lambda _: False, time.monotonic, time.sleep)
    tenure = take(SqliteStore(home / "state.db"), Holder("here", os.getpid(), time.time()), around)
    names = iter(range(10**6))
    coordinator = Coordinator(
        tenure, agent, time.monotonic, lambda: f"{os.getpid()}-{next(names)}", patience=20
    )
    for file in files:
        coordinator.apply(load(file).required())
        settle(coordinator)
    if not files:
        settle(coordinator)
    running = sorted((name, site) for site, one in shops.items() for name in one.spark.held)
    (home / "running.json").write_text(json.dumps(running))
    agent.close()


def settle(coordinator: Coordinator) -> None:
    """Go on until the change is over and the sites are as it says."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        reports = coordinator.tick()
        over = all(board.operation and not board.busy for board in coordinator._boards.values())
        jobs = [job for report in reports.values() for job in report.jobs.values()]
        if over and all(job.state == "running" for job in jobs):
            return
        time.sleep(0.002)
    raise SystemExit(f"not settled: {[b.operation for b in coordinator._boards.values()]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
