"""The drivers of a pipeline at a site: made when they are needed, started again when they died."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from millrace.agent.fleet import Driver, driver_name, driver_of, own_driver, settings_of
from millrace.agent.suspects import DEATHS, Lives
from millrace.engines.spark import lease
from millrace.engines.spark.engine import SparkEngine
from millrace.errors import OperationFailed
from millrace.machine import Folders
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.site import EngineKind
from millrace.plan.fuse import as_queries
from millrace.ports import JobState

_LIVING = (JobState.RUNNING, JobState.STARTING)
#: Between a driver's name and its settings, where these are not the first that it had.
_OTHER = "+"
#: So long who asked for a driver may take to start something in it.
_KEPT_SECONDS = 60.0


@dataclass(slots=True)
class Drivers:
    """By name; any thread may call. A query that makes its driver die again and again is set apart.

    See `suspects`.
    """

    site: str
    folders: Folders
    #: Fetches what drivers are started with, where its progress is told.
    prepare: Callable[[], None]
    say: Callable[[str], None]
    _drivers: dict[str, Driver] = field(default_factory=dict)
    _apart: set[str] = field(default_factory=set)
    _suspects: set[str] = field(default_factory=set)
    _lives: dict[str, Lives] = field(default_factory=dict)
    #: The generation of each driver whose end was taken note of last.
    _ends: dict[str, int] = field(default_factory=dict)
    #: By driver: for which queries it was asked, and when last.
    _given: dict[str, dict[str, float]] = field(default_factory=dict)
    #: By driver: the settings that the first of its name had.
    _settings: dict[str, str] = field(default_factory=dict)
    #: By driver: its page when it was said last that it is up.
    _told: dict[str, str] = field(default_factory=dict)
    _closing: bool = False
    _settled: bool = False
    _lock: Lock = field(default_factory=Lock)

    def up(self, file: Pipeline, query: str) -> Driver:
        """Return the driver of a query when it is up; raises where it does not come up.

        One with other settings than the file's takes no query any more: it ends with its last.
        """
        if file.jobs[query].needs == EngineKind.SPARK:
            self.prepare()
        with self._lock:
            if self._closing:
                raise OperationFailed("closing", f"site {self.site} is being closed")
            driver = self._driver(file, query)
            name = self.name(file, query)
            self._given.setdefault(name, {})[query] = time.monotonic()
            news, left = not driver.alive, self._left(name)
        for other in left:
            other.close()
        driver.wait()
        if news:
            self._tell_up(name, driver.page)
        return driver

    def _tell_up(self, name: str, page: str) -> None:
        """Say that a driver is up; many may have waited for it."""
        with self._lock:
            known = self._told.get(name) == page
            self._told[name] = page
        if not known:
            self.say(f"driver {name} is up{f': {page}' if page else ''}")

    def name(self, file: Pipeline, query: str) -> str:
        """Return the name of a query's driver."""
        job = file.jobs[query]
        name = own_driver(job) if query in self._apart else driver_name(job)
        settings = settings_of(file, job)
        first = self._settings.setdefault(name, settings)
        return name if settings == first else f"{name}{_OTHER}{settings}"

    def _left(self, name: str) -> list[Driver]:
        """The drivers that a driver took the place of and in which nothing runs; forgotten here."""
        own = name.partition(_OTHER)[0]
        others = [one for one in self._drivers if one != name and one.partition(_OTHER)[0] == own]
        return [self._drivers.pop(one) for one in others if not self._used(one)]

    def _used(self, name: str) -> bool:
        """Whether a driver has queries that nobody stopped, or is about to get one."""
        statuses = self._drivers[name].status()
        if any(status.state is not JobState.STOPPED for status in statuses.values()):
            return True
        before = time.monotonic() - _KEPT_SECONDS
        given = self._given.get(name, {})
        return any(query not in statuses and at > before for query, at in given.items())

    def place(self, file: Pipeline, query: str, site: Path) -> Path:
        """Return the folder of a query's driver, in that of its site."""
        return site / "drivers" / self.name(file, query).partition("/")[2]

    def settle(self, site: Path) -> None:
        """End what an agent before this one left running: it would still write. Looks once."""
        with self._lock:
            if self._settled:
                return
            self._settled = True
            ours = {name.partition("/")[2] for name in self._drivers}
            for place in (site / "drivers").glob("*"):
                if place.name not in ours:
                    lease.clear(place)

    def _driver(self, file: Pipeline, query: str) -> Driver:
        name = self.name(file, query)
        known = self._drivers.get(name)
        if known is not None and self._died(name, known):
            self._note_death(name, known, file)
        if known is not None and query in self._suspects and not _runs(known, query):
            self._part(name, known, file, query)
            name = self.name(file, query)
        if name not in self._drivers:
            self._drivers[name] = driver_of(file, file.jobs[query], name, self.folders)
        return self._drivers[name]

    def _died(self, name: str, driver: Driver) -> bool:
        """Whether a driver ended since it was looked at last; its end counts once."""
        if driver.alive or not isinstance(driver, SparkEngine) or driver.pid is None:
            return False
        news = self._ends.get(name) != driver.generation
        self._ends[name] = driver.generation
        if news:
            self.say(f"driver {name} ended; starting it again")
        return news

    def _note_death(self, name: str, driver: Driver, file: Pipeline) -> None:
        statuses, hosted = driver.status(), self._hosted(name, file)
        batches = {j.name: statuses[j.name].progress.batch for j in hosted if j.name in statuses}
        lives = self._lives.setdefault(name, Lives())
        lives.died(time.monotonic(), batches)
        self._suspects |= {job.name for job in lives.suspects(hosted)}

    def _part(self, name: str, driver: Driver, file: Pipeline, query: str) -> None:
        """Set a query apart that may be why its driver died: when it is started next.

        Another thread may already be on its way to start it in the driver that it had.
        """
        self.say(f"driver {name} ended {DEATHS} times and {query} got nowhere: it has a driver of "
                 "its own from now on")  # fmt: skip
        self._suspects.discard(query)
        self._apart.add(query)
        job = as_queries(file).jobs[query]
        for one in job.members or (job,):
            driver.forget(one.name)

    def _hosted(self, name: str, file: Pipeline) -> list[Job]:
        """The queries that a driver hosts by a file."""
        jobs = as_queries(file).jobs.values()
        return [job for job in jobs if job.site == self.site and self.name(file, job.name) == name]

    @property
    def all(self) -> list[Driver]:
        """The drivers that were made so far."""
        with self._lock:
            return list(self._drivers.values())

    def close(self) -> None:
        """Stop all queries as planned and end the drivers; none is started any more."""
        with self._lock:
            self._closing = True
        for driver in self.all:
            driver.close()

    def kill(self) -> None:
        """End the drivers at once."""
        with self._lock:
            self._closing = True
        for driver in self.all:
            driver.kill()


def _runs(driver: Driver, query: str) -> bool:
    """Whether a query runs in a driver, or is about to."""
    status = driver.status().get(query)
    return status is not None and status.state in _LIVING
