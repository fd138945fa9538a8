"""A site on this machine: its Kafka, its Spark drivers, and the folders of its queries."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from millrace.agent.brokers import attached, broker_of, site_place
from millrace.agent.drivers import Drivers
from millrace.agent.fleet import Driver, Tools
from millrace.agent.making import Surroundings
from millrace.agent.orders import with_partitions
from millrace.brokers.kafka import AttachedKafka
from millrace.engines.spark import lease
from millrace.engines.spark.checkpoint import Committed, committed, write_start
from millrace.engines.spark.ledger import progress_of
from millrace.errors import OperationFailed
from millrace.machine import Folders
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.policy import CheckpointAt
from millrace.model.site import Site
from millrace.plan.fuse import as_queries
from millrace.ports import JobOrder, Progress
from millrace.ports.link import Depot, JobGoal
from millrace.stores.archive import unpack
from millrace.stores.parcels import make, open_into

#: The folder in which queries are looked at: nothing is kept there.
_NOWHERE = "0"


@dataclass(slots=True)
class SiteWorkshop:
    """What a keeper works with; any thread may call."""

    pipeline: str
    site: str
    folders: Folders
    #: What processes are started with; to find it may take long, once.
    tools: Callable[[], Tools]
    depot: Depot
    say: Callable[[str], None] = lambda _: None
    #: The user's modules where a file has no artifact of them.
    code: Path | None = None
    #: The folder that all sites see, for checkpoints that outlive a site.
    shared: Path | None = None
    #: By address, None for the one that is started here: a file may name another one.
    _brokers: dict[str | None, AttachedKafka] = field(default_factory=dict)
    #: Those of other sites, with where they were reached last.
    _others: dict[str, tuple[Site, str, AttachedKafka]] = field(default_factory=dict)
    drivers: Drivers = field(init=False)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        """There are no drivers yet."""
        self.drivers = Drivers(self.site, self.tools, self.say)

    @property
    def place(self) -> Path:
        """The site's folder."""
        return site_place(self.folders, self.pipeline, self.site)

    def broker(self, file: Pipeline) -> AttachedKafka:
        """Return the site's broker, started or not."""
        tools, site = self.tools(), file.sites[self.site]
        address = site.broker.address if site.broker is not None else None
        with self._lock:
            if address not in self._brokers:
                made = broker_of(site, self.place, tools.java, tools.kafka)
                self._brokers[address] = made
            return self._brokers[address]

    def engine(self, file: Pipeline, query: str) -> Driver:
        """Return the driver of a query, up; one that died is started again."""
        self.drivers.settle(self.place)
        return self.drivers.up(file, query)

    def order(
        self, file: Pipeline, query: str, goal: JobGoal | None, around: Surroundings
    ) -> JobOrder:
        """Return all that a driver needs for a query."""
        whole = as_queries(file)
        job = whole.jobs[query]
        inside = frozenset(file.streams.keys() - whole.streams.keys())
        order = JobOrder(
            file,
            file.jobs[query],
            _nobody(file),
            self._folder(job, goal, around.parcel),
            self._code(around.code),
            job.members,
            inside if job.members else frozenset(),
        )
        if goal is None:
            return order
        letters = (file.streams[name].dead_letters for name in job.reads)
        names = (*job.reads, *job.writes, *(name for name in letters if name is not None))
        used = sorted({file.streams[name].site or "" for name in names})
        brokers = {name: self._reached(name, file, around) for name in used}
        clients = {name: broker.clients() for name, broker in brokers.items()}
        there = {name: broker.partitions() for name, broker in brokers.items()}
        return replace(
            order,
            pipeline=with_partitions(file, there),
            brokers={name: dialects["java"] for name, dialects in clients.items()},
            writers={name: dialects["librdkafka"] for name, dialects in clients.items()},
        )

    def _reached(self, site: str, file: Pipeline, around: Surroundings) -> AttachedKafka:
        """The broker of a site, this or another, as its clients reach it from here."""
        if site == self.site:
            return self.broker(file)
        found = file.sites[site]
        own = found.broker.address if found.broker is not None else None
        address = own or around.brokers.get(site)
        if address is None:
            raise OperationFailed(
                "no-site",
                f"where the broker of site {site} is reached is not known yet",
                "is its agent up?",
                transient=True,
            )
        with self._lock:
            known = self._others.get(site)
            if known is None or known[:2] != (found, address):
                known = self._others[site] = (found, address, attached(found, address))
            return known[2]

    def _code(self, digest: str | None) -> Path:
        """The folder of an artifact with code, unpacked once."""
        if digest is None:
            return self.code or self.place / "no-code"
        place = self.folders.state / "code" / digest
        with self._lock:
            if not place.exists():
                fresh = place.with_name(f"{digest}.new")
                shutil.rmtree(fresh, ignore_errors=True)
                unpack(self.depot.fetch(digest), fresh)
                fresh.replace(place)
        return place

    def folder(self, query: Job, number: int) -> Path:
        """Return the folder of a query by its number; one that is shared is the same for sites."""
        if query.checkpoint.place is not CheckpointAt.SHARED:
            return self.place / "jobs" / query.name / str(number)
        if self.shared is None:
            raise OperationFailed(
                "not-shared",
                f"the checkpoint of {query.name} is shared, and site {self.site} has no such place",
                "name the folder that all sites see: --shared DIR (of millrace up and agent)",
            )
        return self.shared / self.pipeline / query.name / str(number)

    def _folder(self, query: Job, goal: JobGoal | None, parcel: str | None) -> Path:
        """The folder in which a query begins or goes on; what belongs there is there."""
        if goal is None:
            return self.place / "jobs" / query.name / _NOWHERE
        place = self.folder(query, goal.folder)
        if place.exists():
            if goal.vouched:
                lease.release(place)
            return place
        if goal.brought is not None:
            if parcel is None:
                raise OperationFailed(
                    "no-parcel",
                    f"what {query.name} keeps has not come from site {goal.brought[0]} yet",
                    transient=True,
                )
            open_into(self.depot.fetch(parcel), place)
        elif goal.begins:
            positions = {name: dict(parts) for name, parts in goal.begins.items()}
            write_start(place, Committed(-1, goal.since, positions, positions))
        return place

    def parcel(self, query: str, number: int) -> str:
        """Make an artifact of a folder; whoever held it has let go of it."""
        self.drivers.settle(self.place)
        self.place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="parcel-", dir=self.place) as folder:
            target = Path(folder) / "parcel"
            make(self.place / "jobs" / query / str(number), target)
            return self.depot.send(target)

    def ends(self, file: Pipeline, stream: str, around: Surroundings) -> dict[int, int]:
        """Return where a stream ends; partitions that hold nothing are left out."""
        found = file.streams[stream]
        log = self._reached(found.site or "", file, around).log
        spans = log.ends(found.address)
        return {part: span.end for part, span in spans.items() if span.end > span.first}

    def progress(self, file: Pipeline, query: str, goal: JobGoal) -> dict[str, Progress]:
        """Return how far a query was: fates by ledgers, its positions as Spark has them."""
        self.drivers.settle(self.place)
        place = self.folder(as_queries(file).jobs[query], goal.folder)
        ledgers = {query: place / "ledger.json"}
        ledgers |= {path.stem.removeprefix("ledger-"): path for path in place.glob("ledger-*.json")}
        found = {query: Progress()}
        for name, path in ledgers.items():
            with suppress(FileNotFoundError):
                found[name] = progress_of(json.loads(path.read_text("utf-8")))
        done = committed(place / "checkpoint")
        names = {stream.address: stream.name for stream in file.streams.values()}
        positions = {names[topic]: at for topic, at in done.positions.items() if topic in names}
        at = done.at / 1000 if done.at is not None else found[query].at
        found[query] = replace(found[query], positions=positions, at=at)
        return found

    def log(self, file: Pipeline, query: str) -> Path:
        """Return the log of a query's driver."""
        return self.drivers.place(file, query, self.place) / "driver.log"

    def halt(self) -> None:
        """Stop all queries as planned and end their drivers; none is started any more."""
        self.drivers.close()

    def close(self) -> None:
        """End what is left: the broker."""
        self.halt()
        for broker in self._brokers.values():
            broker.stop()

    def kill(self) -> None:
        """End every process at once; the next start finds what was written."""
        self.drivers.kill()
        for broker in self._brokers.values():
            broker.stop()


def _nobody(file: Pipeline) -> dict[str, dict[str, str]]:
    """Brokers for queries that are only looked at, so that nobody connects to them.

    Each has an address of its own where the real ones have: how a query runs may depend on that.
    """
    sites = file.sites.values()
    there = {site.name: site.broker.address if site.broker else None for site in sites}
    real = {name: address or name for name, address in there.items()}
    ports = {address: 9 + number for number, address in enumerate(dict.fromkeys(real.values()))}
    return {name: {"bootstrap.servers": f"127.0.0.1:{ports[at]}"} for name, at in real.items()}
