"""A coordinator of fakes behind its API: a real store, real rounds, no processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from millrace.api.limits import Limits
from millrace.api.serve import Server, bound
from millrace.coordinator.home import Home
from millrace.coordinator.keyring import Wanted
from millrace.coordinator.station import Station
from millrace.coordinator.tokens import Role
from millrace.machine import Folders
from millrace.testing.workshop import FakeWorkshop

BASE = "/api/v1"


def document(name: str = "p", jobs: int = 1, **more: Any) -> dict[str, Any]:
    """A pipeline of a chain of jobs at one site."""
    streams = {f"s{i}": {"site": "here", "format": "raw"} for i in range(jobs + 1)}
    return {
        "pipeline": name,
        "sites": {"here": {"broker": {"kind": "kafka"}, "engine": {"kind": "spark"}}},
        "streams": streams,
        "jobs": {
            f"j{i}": {
                "site": "here",
                "from": f"s{i}",
                "to": f"s{i + 1}",
                "sql": f"SELECT * FROM s{i}",  # noqa: S608
            }
            for i in range(jobs)
        },
        **more,
    }


@dataclass
class House:
    """A station with what tests need to reach it."""

    station: Station
    home: Home
    shops: dict[tuple[str, str], FakeWorkshop] = field(default_factory=dict)

    def token(self, role: Role = Role.ADMIN, **more: Any) -> str:
        return self.station.keyring.issue(Wanted(f"t-{role.text}", role, **more), "test").text

    def auth(self, role: Role = Role.ADMIN, **more: Any) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token(role, **more)}"}

    @contextmanager
    def client(
        self, role: Role = Role.ADMIN, limits: Limits | None = None
    ) -> Iterator[httpx.Client]:
        with (
            self.served(limits) as url,
            httpx.Client(base_url=url, headers=self.auth(role), timeout=40) as client,
        ):
            yield client

    @contextmanager
    def served(self, limits: Limits | None = None) -> Iterator[str]:
        """Serve for real, at a port of the system's choice; gives the URL."""
        server = Server(self.station, bound("127.0.0.1:0"), limits or Limits())
        told: list[str] = []
        ready = threading.Event()

        def tell(url: str) -> None:
            told.append(url)
            ready.set()

        thread = threading.Thread(target=server.run, args=(tell,))
        thread.start()
        try:
            assert ready.wait(20)
            yield told[0]
        finally:
            server.stop()
            thread.join(10)
            assert not thread.is_alive(), "the server did not end"

    def apply(self, client: httpx.Client, body: dict[str, Any], **headers: str) -> httpx.Response:
        return client.put(
            f"{BASE}/pipelines/{body['pipeline']}", json={"document": body}, headers=headers
        )

    def done(
        self, client: httpx.Client, response: httpx.Response, wait: float = 30
    ) -> dict[str, Any]:
        """Wait for the operation of an answer; returns how it ended."""
        assert response.status_code in (200, 202), response.text
        operation = response.json()["id"]
        found = client.get(f"{BASE}/operations/{operation}", params={"wait": wait})
        assert found.status_code == 200, found.text
        assert found.json()["over"], found.text
        view: dict[str, Any] = found.json()
        return view


@contextmanager
def opened(folder: Path) -> Iterator[House]:
    home = Home(Folders(folder / "state", folder / "cache"))
    shops: dict[tuple[str, str], FakeWorkshop] = {}

    def shop(pipeline: str, site: str) -> FakeWorkshop:
        place = folder / "sites" / pipeline / site
        place.mkdir(parents=True, exist_ok=True)
        return shops.setdefault((pipeline, site), FakeWorkshop(site, place))

    station = Station.open(home, shop, lambda pipeline, site: folder / "sites" / pipeline / site)
    try:
        yield House(station, home, shops)
    finally:
        station.close()


def until(look: Any, limit: float = 10.0) -> Any:
    """Return what a look finds as soon as it finds something."""
    end = time.monotonic() + limit
    while not (found := look()):
        assert time.monotonic() < end, "nothing was found in time"
        time.sleep(0.01)
    return found


def problem(response: httpx.Response, status: int, code: str | None = None) -> dict[str, Any]:
    """Check that an answer is a problem, and return it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    assert found["status"] == status
    assert {"type", "title", "detail", "instance", "code", "hint"} <= found.keys()
    if code is not None:
        assert found["code"] == code, found
    return found
