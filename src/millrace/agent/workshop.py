"""A site on this machine: its Kafka, its Spark drivers, and the folders of its queries."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from millrace.agent.brokers import broker_of, site_place
from millrace.agent.examine import NOWHERE
from millrace.agent.fleet import Driver, Tools, driver_name, driver_of
from millrace.agent.orders import with_partitions
from millrace.brokers.kafka import AttachedKafka
from millrace.engines.spark.checkpoint import Committed, committed, write_start
from millrace.engines.spark.ledger import progress_of
from millrace.errors import OperationFailed
from millrace.model.pipeline import Pipeline
from millrace.plan.fuse import as_queries
from millrace.ports import JobOrder, Progress
from millrace.ports.link import JobGoal

#: The folder in which queries are looked at: nothing is kept there.
_NOWHERE = "0"


@dataclass(slots=True)
class SiteWorkshop:
    """What a keeper works with; any thread may call. `neighbours` are all sites, by name."""

    pipeline: str
    site: str
    tools: Tools
    code: Path
    neighbours: Mapping[str, SiteWorkshop]
    _broker: AttachedKafka | None = None
    _drivers: dict[str, Driver] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @property
    def place(self) -> Path:
        """The site's folder."""
        return site_place(self.tools.folders, self.pipeline, self.site)

    def broker(self, file: Pipeline) -> AttachedKafka:
        """Return the site's broker, started or not."""
        with self._lock:
            if self._broker is None:
                site = file.sites[self.site]
                self._broker = broker_of(site, self.place, self.tools.java, self.tools.kafka)
            return self._broker

    def engine(self, file: Pipeline, query: str) -> Driver:
        """Return the driver of a query, up."""
        job = file.jobs[query]
        name = driver_name(job)
        with self._lock:
            if name not in self._drivers:
                self._drivers[name] = driver_of(file, job, name, self.tools)
            driver = self._drivers[name]
        driver.wait()
        return driver

    def order(self, file: Pipeline, query: str, goal: JobGoal | None) -> JobOrder:
        """Return all that a driver needs for a query."""
        whole = as_queries(file)
        job = whole.jobs[query]
        inside = frozenset(file.streams.keys() - whole.streams.keys())
        order = JobOrder(
            file,
            file.jobs[query],
            dict.fromkeys(file.sites, NOWHERE),
            self._folder(query, goal),
            self.code,
            job.members,
            inside if job.members else frozenset(),
        )
        if goal is None:
            return order
        letters = (file.streams[name].dead_letters for name in job.reads)
        names = (*job.reads, *job.writes, *(name for name in letters if name is not None))
        used = sorted({file.streams[name].site or "" for name in names})
        brokers = {name: self._neighbour(name).broker(file) for name in used}
        clients = {name: broker.clients() for name, broker in brokers.items()}
        statuses = {name: broker.status() for name, broker in brokers.items()}
        return replace(
            order,
            pipeline=with_partitions(file, statuses),
            brokers={name: dialects["java"] for name, dialects in clients.items()},
            writers={name: dialects["librdkafka"] for name, dialects in clients.items()},
        )

    def _neighbour(self, site: str) -> SiteWorkshop:
        if site not in self.neighbours:
            raise OperationFailed(
                "no-site", f"site {site} is not known here", "is its agent up?", transient=True
            )
        return self.neighbours[site]

    def folder(self, query: str, number: int | str) -> Path:
        """Return the folder of a query by its number."""
        return self.place / "jobs" / query / str(number)

    def _folder(self, query: str, goal: JobGoal | None) -> Path:
        """The folder in which a query begins or goes on; what belongs there is there."""
        if goal is None:
            return self.folder(query, _NOWHERE)
        place = self.folder(query, goal.folder)
        if place.exists():
            return place
        if goal.brought is not None:
            site, number = goal.brought
            self._bring(self._neighbour(site).folder(query, number), place)
        elif goal.begins:
            positions = {name: dict(parts) for name, parts in goal.begins.items()}
            write_start(place, Committed(-1, goal.since, positions, positions))
        return place

    def _bring(self, source: Path, place: Path) -> None:
        """Copy a folder whole, or not at all; whoever held the old one has let go of it."""
        fresh = place.with_name(f"{place.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(source, fresh)
        for lease in ("lease.json", "lease.lock"):
            (fresh / lease).unlink(missing_ok=True)
        fresh.replace(place)

    def ends(self, file: Pipeline, stream: str) -> dict[int, int]:
        """Return where a stream ends; partitions that hold nothing are left out."""
        found = file.streams[stream]
        log = self._neighbour(found.site or "").broker(file).log
        spans = log.ends(found.address)
        return {part: span.end for part, span in spans.items() if span.end > span.first}

    def progress(self, file: Pipeline, query: str, goal: JobGoal) -> Progress:
        """Return how far a query was: its fates by its ledger, its positions as Spark has them."""
        place = self.folder(query, goal.folder)
        found = Progress()
        with suppress(FileNotFoundError):
            found = progress_of(json.loads((place / "ledger.json").read_text("utf-8")))
        done = committed(place / "checkpoint")
        names = {stream.address: stream.name for stream in file.streams.values()}
        positions = {
            names[topic]: parts for topic, parts in done.positions.items() if topic in names
        }
        at = done.at / 1000 if done.at is not None else found.at
        return replace(found, positions=positions, at=at)

    def close(self) -> None:
        """Stop all jobs as planned and end every process; the broker last."""
        for driver in list(self._drivers.values()):
            driver.close()
        if self._broker is not None:
            self._broker.stop()
