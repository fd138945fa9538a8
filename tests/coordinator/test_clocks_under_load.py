"""The wall clock jumps while changes, reports and looks go on: nobody loses a lease by it.

Leases and all that waits go by a clock that only goes forward. What is told of times goes by the
wall clock, and no duration of it is less than none.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from millrace.agent.agent import Agent
from millrace.agent.http_link import HttpLink
from millrace.agent.joined import JoinedAgent
from millrace.coordinator.failover import FAILOVER
from millrace.coordinator.home import _alive, holder
from millrace.coordinator.tenure import Around, take
from millrace.coordinator.tokens import Role
from millrace.errors import OperationFailed
from millrace.machine.web import Web
from millrace.stores.artifacts import Artifacts
from millrace.stores.sqlite import SqliteStore
from millrace.testing.workshop import FakeWorkshop
from tests.api.house import BASE, House, document, opened, until
from tests.coordinator.test_clocks import HOUR, Wall

#: Where the clock stands, one after another: ahead, back, behind, back again, and small steps.
STANDS = (HOUR, 0.0, -HOUR, 0.0, -2.0, 1.0)
#: A change takes so long at most, and so long nothing may be heard on a stream, on any clock.
LONGEST, SILENT = 20.0, 5.0


def leased() -> dict[str, Any]:
    """A job under a lease of a minute at a site that joined; another site could have it."""
    body = document("leased")
    body["sites"]["far"] = {**body["sites"]["here"], "host": "far.example"}
    body["jobs"]["j0"] |= {"site": "far", "failover": "1 min"}
    return body


@dataclass
class Load:
    """What goes on meanwhile: changes, looks, and a stream of events; all that was told is kept."""

    house: House
    url: str
    over: threading.Event = field(default_factory=threading.Event)
    views: list[dict[str, Any]] = field(default_factory=list)
    #: The changes of each pipeline that are over, and how long each took.
    took: dict[str, list[float]] = field(default_factory=dict)
    #: When numbers came on the stream, and the lines of the journal there.
    heard: list[float] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=self.house.auth(), timeout=40)

    def change(self, name: str) -> None:
        """Change a pipeline again and again."""
        with self.client() as client:
            while not self.over.is_set():
                begun, done = time.monotonic(), self.took.setdefault(name, [])
                wanted = document(name, jobs=1 + len(done) % 3)
                view = self.house.done(client, self.house.apply(client, wanted), LONGEST)
                assert view["state"] == "done", view
                assert view["ended"] >= view["at"], view
                self.views.append(view)
                done.append(time.monotonic() - begun)

    def look(self) -> None:
        """Look at all that is shown, again and again."""
        paths = ("sites", "operations", "pipelines", "pipelines/leased/jobs", "journal")
        with self.client() as client:
            while not self.over.is_set():
                for path in paths:
                    answer = client.get(f"{BASE}/{path}", params={"limit": 1000})
                    assert answer.status_code == 200, answer.text
                    self.views += answer.json()["items"]
                self.over.wait(0.05)

    def listen(self) -> None:
        """Follow the events, with numbers of jobs."""
        params = {"after": 0, "metrics": 0.2}
        with (
            self.client() as client,
            client.stream("GET", f"{BASE}/events", params=params) as found,
        ):
            kind = ""
            for line in found.iter_lines():
                name, _, value = line.partition(": ")
                kind = value if name == "event" else kind
                if name == "data":
                    self.views.append(json.loads(value))
                    if kind == "metrics":
                        self.heard.append(time.monotonic())
                    else:
                        self.numbers.append(self.views[-1]["number"])
                if self.over.is_set():
                    return

    def begin(self, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as failure:
                self.failures.append(failure)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def more(self) -> None:
        """Return when everybody has got further by two."""
        before = {name: len(done) for name, done in self.took.items()}
        heard = len(self.heard)

        def further() -> bool:
            assert self.failures == []
            done = all(len(self.took[name]) >= count + 2 for name, count in before.items())
            return done and len(self.heard) >= heard + 2

        until(further, 2 * LONGEST)

    @contextmanager
    def going(self, *pipelines: str) -> Iterator[None]:
        works: list[Callable[[], None]] = [partial(self.change, name) for name in pipelines]
        threads = [self.begin(work) for work in (*works, self.look, self.listen)]
        try:
            until(lambda: len(self.took) == len(pipelines) and self.heard)
            yield
        finally:
            self.over.set()
            for thread in threads:
                thread.join(LONGEST)


@contextmanager
def far(house: House, url: str, folder: Path) -> Iterator[FakeWorkshop]:
    """Have an agent join for a site, over HTTP."""
    shop = FakeWorkshop("far", folder)
    agent = Agent(lambda _, __: shop, lambda _, __: folder)
    with Web(url, house.token(Role.VIEWER, site="far")) as web:
        link = HttpLink(web, Artifacts(folder / "artifacts"))
        joined = JoinedAgent("far", agent, link, folder / "goal.json", lambda _: None)
        agent.wake, agent.unheard = joined.wake, joined.unheard
        running = threading.Thread(target=joined.run)
        running.start()
        try:
            yield shop
        finally:
            joined.stop()
            running.join(40)


def negative(found: object, place: str = "") -> list[str]:
    """The numbers below zero in a document; a job that has made no batch yet says -1."""
    if isinstance(found, Mapping):
        items = [(key, it) for key, it in found.items() if (key, it) != ("batch", -1)]
        return [one for key, it in items for one in negative(it, f"{place}/{key}")]
    if isinstance(found, list):
        return [one for number, it in enumerate(found) for one in negative(it, f"{place}/{number}")]
    return [f"{place}: {found}"] if isinstance(found, int | float) and found < 0 else []


def refused(file: Path) -> None:
    """Another coordinator finds that the lease of this one holds: it beats."""
    other = SqliteStore(file)
    try:
        with pytest.raises(OperationFailed, match=f"process {os.getpid()} at"):
            take(other, holder(), Around(_alive, time.monotonic, time.sleep))
    finally:
        other.close()


@pytest.mark.timeout(240)
def test_jumps_of_the_clock_cost_nobody_a_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = Wall()
    monkeypatch.setattr("millrace.coordinator.home.SqliteStore", partial(SqliteStore, clock=wall))
    monkeypatch.setattr("time.time", wall)
    with ExitStack() as stack:
        house = stack.enter_context(opened(tmp_path / "house"))
        url = stack.enter_context(house.served())
        (tmp_path / "far").mkdir()
        shop = stack.enter_context(far(house, url, tmp_path / "far"))
        load, station = Load(house, url), house.station
        with load.client() as client:
            house.done(client, house.apply(client, leased()))
        generation = station.coordinator.tenure.generation
        with load.going("p0", "p1", "p2"):
            for stand in STANDS:
                wall.offset = stand
                load.more()
                if abs(stand) == HOUR:
                    refused(house.home.place / "state.db")
        assert load.failures == []
        board = station.coordinator.board("leased")
        # No lease expired, neither of a job, of its agent nor of the coordinator.
        assert [revision.by for revision in board.revisions.values()] == ["t-admin"]
        assert shop.spark.starts == 1
        assert not station.superseded
        assert station.coordinator.tenure.generation == generation
        check(load)


def check(load: Load) -> None:
    """All that was told meanwhile is right."""
    assert {it["state"] for it in load.views if it.get("name") == "far"} == {"up"}
    assert FAILOVER not in {it.get("by") for it in load.views}
    assert [one for view in load.views for one in negative(view)] == []
    assert load.numbers == list(range(1, len(load.numbers) + 1))
    assert max(took for done in load.took.values() for took in done) < LONGEST
    gaps = [after - before for before, after in zip(load.heard, load.heard[1:], strict=False)]
    assert min(gaps) > 0
    assert max(gaps) < SILENT
    steps = [it["at"] for it in load.views if "number" in it and "about" in it]
    assert max(steps) - min(steps) > 1.9 * HOUR  # the journal did see the clock jump
