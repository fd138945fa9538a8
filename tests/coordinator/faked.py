"""The command `millrace` over sites of fakes, as a process of its own (see `forked`).

Processes, signals, SQLite and HTTP are real. A job is a process that sleeps and holds a lock; it
ends with who started it, as drivers do. A job that is started while another instance of it runs
writes that down as a violation, and everything that is done is written down with who did it.
FAKED names the folder of that, and limits that are shorter than in real life.
"""

from __future__ import annotations

import fcntl
import functools
import importlib
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from millrace.agent import workshops
from millrace.cli.main import run
from millrace.errors import OperationFailed
from millrace.machine import Child, Folders, end_session, leash
from millrace.machine.process import session_members, started_at
from millrace.model.stream import Stream
from millrace.ports import JobOrder, JobState, JobStatus
from millrace.testing.fakes import FakeBroker, FakeEngine
from millrace.testing.workshop import FakeWorkshop

#: So long a lock may be held by who only looks whether it is.
LOOK_SECONDS = 1.0
GATE_SECONDS = 30.0
#: While a file of this name is in the folder, no state has room for anything.
FULL = "full"


def tell(folder: Path, *words: str) -> None:
    """Write down what is done; lines of several processes don't mix."""
    with (folder / "effects").open("a", encoding="utf-8") as out:
        out.write(" ".join((str(os.getpid()), *words)) + "\n")


@dataclass
class SleepingEngine(FakeEngine):
    """An engine whose jobs are processes that hold a lock, all sites over."""

    folder: Path = field(default_factory=Path)
    site: str = ""
    children: dict[str, Child] = field(default_factory=dict)

    def start(self, order: JobOrder) -> None:
        name = order.job.name
        if self.status().get(name, JobStatus(JobState.STOPPED)).state is JobState.RUNNING:
            return
        tell(self.folder, "start", self.site, name)
        self._pass_gate()
        known = self.folder / f"{self.site}-{name}.pid"
        end_predecessor(known)
        with (self.folder / f"{name}.lock").open("a+") as lock:
            self._lock_file(lock.fileno(), name)
            command = [sys.executable, "-S", leash.__file__, str(os.getpid()), "sleep", "600"]
            child = Child.start(command, self.folder / "sleep.log", keep=(lock.fileno(),))
        fresh = known.with_suffix(".new")
        fresh.write_text(f"{child.pid} {started_at(child.pid)}")
        fresh.replace(known)
        self.children[name] = child
        super().start(order)
        self.jobs[name] = replace(self.jobs[name], run=str(child.pid))

    def _pass_gate(self) -> None:
        """A test may let starts take long."""
        until = time.monotonic() + GATE_SECONDS
        while (self.folder / "gate").exists() and time.monotonic() < until:
            time.sleep(0.01)

    def _lock_file(self, file: int, name: str) -> None:
        until = time.monotonic() + LOOK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < until:
                    time.sleep(0.01)
                    continue
                with (self.folder / "violations").open("a") as out:
                    out.write(f"{name} at {self.site}\n")
            return

    def stop(self, job: str, ends: Mapping[str, Mapping[int, int]] | None = None) -> None:
        tell(self.folder, "stop", self.site, job)
        super().stop(job, ends)
        if job in self.children:
            self.children.pop(job).end(0)

    def status(self) -> Mapping[str, JobStatus]:
        for name, child in list(self.children.items()):
            if not child.alive and self.jobs[name].state is JobState.RUNNING:
                self.jobs[name] = replace(self.jobs[name], state=JobState.FAILED)
        return super().status()

    def kill(self, grace: float = 0.0) -> None:
        """End all jobs at once, unplanned."""
        del grace
        for name in list(self.children):
            self.children.pop(name).end(0)
        self.jobs.clear()


def end_predecessor(known: Path) -> None:
    """End what an agent that is gone left running, as the lease of a driver does."""
    if known.exists():
        pid, started = known.read_text().split()
        if abs(started_at(int(pid)) - float(started)) < 1 and session_members(int(pid)):
            end_session(int(pid))


class TellingBroker(FakeBroker):
    """A broker that writes down what is done to it."""

    def __init__(self, folder: Path, site: str) -> None:
        super().__init__(f"{site}-broker")
        self._folder = folder
        self._site = site

    def ensure(self, *streams: Stream, readers: Sequence[str] = ()) -> None:
        for stream in streams:
            tell(self._folder, "ensure", self._site, stream.name)
        super().ensure(*streams, readers=readers)

    def drop(self, stream: Stream) -> None:
        tell(self._folder, "drop", self._site, stream.name)
        super().drop(stream)


@dataclass
class Shop(FakeWorkshop):
    """A site; `kill` ends its jobs without a plan."""

    def kill(self) -> None:
        if isinstance(self.spark, SleepingEngine):
            self.spark.kill()


class FakedWorkshops:
    """Stands for `millrace.agent.workshops.Workshops`."""

    def __init__(self, folders: Folders, *_: Any, **__: Any) -> None:
        self._folders = folders

    def workshop(self, pipeline: str, site: str) -> Shop:
        shared, own = Path(settings()["folder"]), self.place(pipeline, site)
        engine = SleepingEngine(folder=shared, site=site)
        return Shop(site, own, TellingBroker(shared, site), engine)

    def place(self, pipeline: str, site: str) -> Path:
        return self._folders.pipeline(pipeline) / "sites" / site


class Limited(sqlite3.Connection):
    """A connection whose transactions find no room while a test says so: SQLite itself says it."""

    before: int = 0

    def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
        if sql.startswith("BEGIN"):
            self.before = self.total_changes
        full = (Path(settings()["folder"]) / FULL).exists()
        if full and sql == "COMMIT" and self.total_changes != self.before:
            try:
                super().execute("PRAGMA max_page_count = 1")  # which is as many as there are
                super().execute("CREATE TABLE ballast AS SELECT zeroblob(16 << 20)")
            finally:
                super().execute("PRAGMA max_page_count = 4294967294")
        return super().execute(sql, *given)


def settings() -> dict[str, Any]:
    """What a test wants."""
    found: dict[str, Any] = json.loads(os.environ["FAKED"])
    return found


def replaced(module: Any, name: str, by: Callable[..., Any] | float) -> None:
    """Put something in the place of what a module has under a name."""
    if not hasattr(module, name):
        raise OperationFailed("no-name", f"{module} has no {name} any more")
    setattr(module, name, by)


def main() -> None:
    """Run the command with what a test wants in the place of what is real."""
    for place, value in settings()["limits"].items():
        within, _, constant = place.rpartition(".")
        replaced(importlib.import_module(f"millrace.{within}"), constant, value)
    replaced(workshops, "Workshops", FakedWorkshops)
    replaced(sqlite3, "connect", functools.partial(sqlite3.connect, factory=Limited))
    run()
