"""A coordinator over sites of fakes in a process of its own, to be killed (see `forked`).

What runs is told by locks on files: they end with the process, as jobs of a site's agent do. A job
that is started while another instance of it runs writes that down as a violation.
"""
# ruff: noqa: ARG002 - fakes have the arguments of what they stand for

from __future__ import annotations

import fcntl
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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

#: So much later it is after each round, for who waits until something is tried again.
ROUND_SECONDS = 0.05


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
        came = self.folder / f"{self.site}-{query}-{goal.folder if goal is not None else 0}.came"
        if goal is not None and goal.brought is not None and not came.exists():
            if around.parcel is None:
                raise OperationFailed("no-parcel", f"{query} has not come yet", transient=True)
            assert self.depot.fetch(around.parcel).read_text() == parcel_of(query)
            came.touch()
        job = as_queries(file).jobs[query]
        return JobOrder(file, job, {}, self.folder, self.folder, job.members)

    def ends(
        self, file: Pipeline, stream: str, around: Surroundings, query: str | None = None
    ) -> dict[int, int]:
        return {}

    def received(self, file: Pipeline, query: str) -> dict[str, dict[str, int]]:
        del file, query
        return {}

    def parcel(self, query: str, number: int) -> str:
        target = self.folder / f"{self.site}-{query}.parcel"
        target.write_text(parcel_of(query))
        return self.depot.send(target)

    def log(self, file: Pipeline, query: str) -> Path:
        return self.folder / "log"

    def halt(self) -> None:
        Pointed(self.spark, "engine").close()

    def kill(self) -> None:
        self.close()

    def close(self) -> None:
        Pointed(self.kafka, "broker").stop()

    def progress(self, file: Pipeline, query: str, goal: JobGoal) -> dict[str, Progress]:
        return {}


class Turns(ThreadPoolExecutor):
    """A pool whose work begins when all of a round is given, and is over before the next one.

    So each run comes to the same places equally often; what a round does is done side by side.
    Its clock goes by rounds, for the same reason.
    """

    def __init__(self) -> None:
        super().__init__(16)
        self.rounds = 0
        self._given: list[tuple[Future[Any], Callable[[], Any]]] = []

    def clock(self) -> float:
        """Return how late it is."""
        return self.rounds * ROUND_SECONDS

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Take a piece of work."""
        future: Future[Any] = Future()
        self._given.append((future, functools.partial(fn, *args, **kwargs)))
        return future

    def go(self) -> None:
        """Do all that was given."""
        self.rounds += 1
        given, self._given = self._given, []
        for done in [super(Turns, self).submit(_settled, *one) for one in given]:
            done.result()


def _settled(future: Future[Any], work: Callable[[], Any]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


def parcel_of(query: str) -> str:
    """What a query keeps."""
    return f"what {query} keeps"


@contextmanager
def playing(home: Path, turns: Turns | None = None) -> Iterator[tuple[Rounds, dict[str, Shop]]]:
    """Give a coordinator on the state of a home, and the sites that it has made so far.

    Their agent works at any time, or in turns (see `settle`).
    """
    shops: dict[str, Shop] = {}
    depot = cast("Depot", Pointed(LocalDepot(Artifacts(home / "artifacts")), "depot"))

    def shop(_: str, site: str) -> Workshop:
        return pointed(shops.setdefault(site, Shop(site, home, depot)))

    agent = Agent(shop, lambda _, site: home / site)
    if turns is not None:
        agent = Agent(shop, lambda _, site: home / site, turns.clock, _pool=turns)
    around = Around(lambda _: False, time.monotonic, time.sleep)
    store = SqliteStore(home / "state.db")
    tenure = take(store, Holder("here", os.getpid(), time.time()), around)
    coordinator = Coordinator(tenure, Clocks(time.time, time.monotonic), patience=20)
    yield (
        Rounds(coordinator, agent, Bell(), lambda _, goal: goal, lambda _, __: True, lambda: None),
        shops,
    )
    agent.close()
    Pointed(store, "store").close()


def main() -> None:
    """Apply files one after another, or go on with what is there; then say what runs."""
    home, files = Path(sys.argv[1]), sys.argv[2:]
    with playing(home, Turns()) as (rounds, shops):
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
        if isinstance(pool := rounds.agent._pool, Turns):
            pool.go()
        boards = coordinator.boards.values()
        reports = [coordinator.roster.reports(board.name) for board in boards]
        jobs = [j for one in reports for report in one.values() for j in report.jobs.values()]
        over = all(board.operation and not board.busy for board in boards)
        if over and all(job.state == "running" for job in jobs):
            return
        time.sleep(0.002)
    raise SystemExit(f"not settled: {[board.operation for board in coordinator.boards.values()]}")
