"""Coordinators and agents as processes of their own over fakes, for tests that end them."""

from __future__ import annotations

import fcntl
import json
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millrace.client import Client
from millrace.machine.ports import free_ports
from millrace.machine.process import started_at
from millrace.spec import load_text
from millrace.wire import pipeline_document
from tests.coordinator import faked
from tests.coordinator.forked import Forked, forked

UP = 30.0
#: Shorter than in real life, in the same proportions.
QUICK = {
    "coordinator.tenure.STILL_SECONDS": 3.0,
    "coordinator.tenure.BEAT_SECONDS": 0.4,
    "coordinator.rounds.BEAT_SECONDS": 0.4,
    "coordinator.sites.AWAY_SECONDS": 3.0,
    "agent.joined.TELL_SECONDS": 1.0,
    "agent.joined.POLL_SECONDS": 4.0,
    "agent.http_link._LATER_SECONDS": 2.0,
}
FILE = """
pipeline: roads
sites: {SITE: {broker: kafka}}
streams: {raw: {schema: {n: int}}, even: {}, out: {}}
jobs:
  even: {from: raw, to: even, sql: SELECT n FROM raw}
  half: {from: even, to: out, sql: SELECT n FROM even}
"""
MORE = "  third: {from: raw, sql: SELECT n FROM raw}\n"


def document(site: str, more: str = "") -> dict[str, Any]:
    """A pipeline of two jobs at a site, or more."""
    return pipeline_document(load_text(FILE.replace("SITE", site) + more).required())


def until(condition: Callable[[], Any], limit: float, what: Callable[[], object]) -> Any:
    """Return what a condition finds as soon as it holds; fails after the limit."""
    end = time.monotonic() + limit
    while not (found := condition()):
        assert time.monotonic() < end, what()
        time.sleep(0.02)
    return found


@dataclass
class Town:
    """A folder with homes of coordinators and agents, and all that runs there."""

    folder: Path
    limits: dict[str, float] = field(default_factory=lambda: dict(QUICK))
    environment: dict[str, str] = field(default_factory=dict)
    processes: list[Forked] = field(default_factory=list)

    def start(self, home: Path, *arguments: str) -> Forked:
        """Start a command over fakes."""
        said = self.folder / f"{len(self.processes)}.said"
        settings = json.dumps({"folder": str(self.folder), "limits": self.limits})
        command = [*arguments, "--home", str(home)]
        environment = {"FAKED": settings, "NO_COLOR": "1", "COLUMNS": "300", **self.environment}
        made = forked(faked.main, command, said, **environment)
        self.processes.append(made)
        return made

    def up(self, home: str = "home", port: int = 0, *, wait: bool = True) -> Forked:
        """Start a coordinator; returns when it serves."""
        found = self.start(self.folder / home, "up", "--listen", f"127.0.0.1:{port}")
        if wait:
            found.await_said("the coordinator is up", UP)
        return found

    def client(self, home: str = "home") -> Client:
        """Return a client of the coordinator of a home."""
        return Client.local(self.folder / home)

    def token(self, site: str, home: str = "home") -> Path:
        """Make a token for the agent of a site."""
        path = self.folder / f"{site}.token"
        with self.client(home) as client:
            path.write_text(client.issue_token(site, site=site)["token"])
        path.chmod(0o600)
        return path

    def agent(self, url: str, site: str = "edge") -> Forked:
        """Start the agent of a site, for which there is a token."""
        token = str(self.folder / f"{site}.token")
        options = ("--join", url, "--token-file", token, "--site", site)
        return self.start(self.folder / "agents", "agent", *options)

    def applied(self, wanted: dict[str, Any], home: str = "home") -> dict[str, Any]:
        """Apply a pipeline and wait for the end of it."""
        with self.client(home) as client:
            found = client.wait(client.apply(wanted)["id"], 30)
        assert found["state"] == "done", found
        return found

    def states(self, home: str = "home") -> dict[str, str]:
        """Return the state of each job, by its name."""
        with self.client(home) as client:
            return {job["name"]: job["state"] for job in client.jobs("roads")}

    def await_running(self, *jobs: str) -> None:
        """Wait until these jobs, and no others, are there and run."""
        wanted = dict.fromkeys(jobs or ("even", "half"), "running")
        until(lambda: self.states() == wanted, UP, self.states)

    def stopped_between_commits(self, process: Forked, home: str = "home") -> None:
        """Stop a coordinator; not while it holds the lock of its state, which no one can take."""

        def stopped() -> bool:
            process.signal(signal.SIGSTOP)
            file = self.folder / home / "coordinator" / "state.db"
            with closing(sqlite3.connect(file, timeout=0.2, isolation_level=None)) as connection:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError:
                    process.signal(signal.SIGCONT)
                    return False
                connection.execute("ROLLBACK")
            return True

        until(stopped, UP, lambda: process.said)

    def effects(self, *kinds: str, by: int | None = None) -> list[str]:
        """Return what was done so far, by whom; all kinds where none is named."""
        file = self.folder / "effects"
        lines = file.read_text().splitlines() if file.exists() else []
        found = [line.partition(" ") for line in lines]
        return [
            what
            for pid, _, what in found
            if (by is None or int(pid) == by) and (not kinds or what.split()[0] in kinds)
        ]

    def runs(self, site: str) -> dict[str, int]:
        """Return the process of each job that holds its lock now."""
        found = {}
        for file in self.folder.glob(f"{site}-*.pid"):
            name = file.stem.removeprefix(f"{site}-")
            pid, started = file.read_text().split()
            if started_at(int(pid)) == float(started) and self._held(name):
                found[name] = int(pid)
        return found

    def _held(self, name: str) -> bool:
        with (self.folder / f"{name}.lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    @property
    def violations(self) -> str:
        """Return the jobs of which there were two."""
        file = self.folder / "violations"
        return file.read_text() if file.exists() else ""


@contextmanager
def town(folder: Path, **limits: float) -> Iterator[Town]:
    """Give a town; all that was started there is ended afterwards."""
    made = Town(folder)
    made.limits |= limits
    try:
        yield made
    finally:
        for process in made.processes:
            process.kill()
    assert made.violations == "", [process.said for process in made.processes]


def port() -> int:
    """Return a port that is free."""
    return free_ports(1)[0]
