"""A site on this machine: its Kafka, its Spark drivers, and the folders of its queries."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from millrace.agent.brokers import broker_of, site_place
from millrace.agent.drivers import Drivers
from millrace.agent.fleet import Driver
from millrace.agent.making import Surroundings
from millrace.agent.orders import with_partitions
from millrace.engines.spark import lease
from millrace.engines.spark.checkpoint import Committed, committed, write_start
from millrace.engines.spark.ledger import progress_of
from millrace.engines.spark.outside.carried import SPOOLS
from millrace.errors import OperationFailed
from millrace.machine import Folders
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.policy import CheckpointAt
from millrace.model.site import BrokerKind, Site
from millrace.model.stream import UNKEPT
from millrace.plan.fuse import as_queries
from millrace.ports import Broker, BrokerStatus, JobOrder, Progress, counts_file
from millrace.ports.link import Depot, JobGoal
from millrace.spool import SpoolReader
from millrace.stores.archive import unpack
from millrace.stores.parcels import make, open_into

#: The folder in which queries are looked at: nothing is kept there.
_NOWHERE = "0"
#: So long a look at a broker is good for queries that are only looked at; one that found nobody.
GLANCE_SECONDS, AWAY_SECONDS = 3.0, 60.0
#: What receivers are told, passwords included, stays where it is.
_PRIVATE = shutil.ignore_patterns("*.private")


@dataclass(slots=True)
class SiteWorkshop:
    """What a keeper works with; any thread may call."""

    pipeline: str
    site: str
    folders: Folders
    #: Fetches what processes are started with; may take long, once.
    prepare: Callable[[], None]
    depot: Depot
    say: Callable[[str], None] = lambda _: None
    #: The user's modules where a file has no artifact of them.
    code: Path | None = None
    #: The folder that all sites see, for checkpoints that outlive a site.
    shared: Path | None = None
    #: By kind and address, None for the one that is started here: a file may name another one.
    _brokers: dict[tuple[str, str | None], Broker] = field(default_factory=dict)
    #: Those of other sites, with where they were reached last.
    _others: dict[str, tuple[Site, str, Broker]] = field(default_factory=dict)
    #: By site and what its file says: until when a look is good, and how its broker was reached.
    _glances: dict[tuple[str, str], tuple[float, BrokerStatus | None]] = field(default_factory=dict)
    drivers: Drivers = field(init=False)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        """There are no drivers yet."""
        self.drivers = Drivers(self.site, self.folders, self.prepare, self.say)

    @property
    def place(self) -> Path:
        """The site's folder."""
        return site_place(self.folders, self.pipeline, self.site)

    def broker(self, file: Pipeline) -> Broker:
        """Return the site's broker, started or not."""
        site = file.sites[self.site]
        known = (site.broker.kind, site.broker.address) if site.broker is not None else ("", None)
        if site.broker is not None and site.broker.managed and known[0] == BrokerKind.KAFKA:
            self.prepare()
        with self._lock:
            if known not in self._brokers:
                self._brokers[known] = broker_of(site, self.place, self.folders.cache)
            return self._brokers[known]

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
        letters = (file.streams[name].dead_letters for name in job.reads)
        names = (*job.reads, *job.writes, *(name for name in letters if name is not None))
        used = sorted({file.streams[name].site or "" for name in names})
        if goal is None:
            return self._looked_at(order, {name: self._glance(name, file, around) for name in used})
        seen = {name: self._reached(name, file, around).status(whole=False) for name in used}
        there = {
            name: {stream: it.partitions for stream, it in status.streams.items()}
            for name, status in seen.items()
        }
        return replace(
            order,
            pipeline=with_partitions(file, there),
            brokers={name: self._client(file, name, it, "java") for name, it in seen.items()},
            writers={name: self._client(file, name, it, "librdkafka") for name, it in seen.items()},
        )

    def _looked_at(self, order: JobOrder, seen: Mapping[str, BrokerStatus | None]) -> JobOrder:
        """The order of a query that is only looked at, as it will start where that is known now.

        Then it may start with what was made of it meanwhile.
        """
        found = {name: it for name, it in seen.items() if it is not None}
        if len(found) < len(seen):
            return order
        file = order.pipeline
        return replace(
            order,
            brokers={name: self._client(file, name, it, "java") for name, it in found.items()},
            writers={
                name: self._client(file, name, it, "librdkafka") for name, it in found.items()
            },
        )

    def _glance(self, site: str, file: Pipeline, around: Surroundings) -> BrokerStatus | None:
        """How a site's broker is reached, if it serves; as of a moment ago, for many queries.

        One that is away is not asked again for a while: each time would take seconds.
        """
        key = (site, repr(file.sites[site].broker))
        known = self._glances.get(key)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        try:
            found = self._reached(site, file, around).status(whole=False)
        except OperationFailed:
            found = BrokerStatus(up=False)
        seen = found if found.up else None
        good = GLANCE_SECONDS if seen is not None else AWAY_SECONDS
        self._glances[key] = (time.monotonic() + good, seen)
        return seen

    @staticmethod
    def _client(file: Pipeline, site: str, seen: BrokerStatus, dialect: str) -> Mapping[str, str]:
        """How a broker's clients connect: Kafka's in a dialect, others as their plug-ins say."""
        broker = file.sites[site].broker
        kind = broker.kind if broker is not None else ""
        return seen.clients.get(dialect) or seen.clients.get(kind, {})

    def _reached(self, site: str, file: Pipeline, around: Surroundings) -> Broker:
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
                place = site_place(self.folders, self.pipeline, site)
                made = broker_of(found, place, self.folders.cache, address)
                known = self._others[site] = (found, address, made)
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
            _put_spools(place)  # where that was cut short
            return place
        if goal.brought is not None:
            if parcel is None:
                raise OperationFailed(
                    "no-parcel",
                    f"what {query.name} keeps has not come from site {goal.brought[0]} yet",
                    transient=True,
                )
            open_into(self.depot.fetch(parcel), place)
            _put_spools(place)
        elif goal.begins:
            positions = {name: dict(parts) for name, parts in goal.begins.items()}
            write_start(place, Committed(-1, goal.since, positions, positions))
        return place

    def parcel(self, query: str, number: int) -> str:
        """Make an artifact of a folder; whoever held it has let go of it."""
        self.drivers.settle(self.place)
        self.place.mkdir(parents=True, exist_ok=True)
        place = self.place / "jobs" / query / str(number)
        with tempfile.TemporaryDirectory(prefix="parcel-", dir=self.place) as folder:
            target = Path(folder) / "parcel"
            with _with_spools(place):
                make(place, target)
            return self.depot.send(target)

    def ends(
        self, file: Pipeline, stream: str, around: Surroundings, query: str | None = None
    ) -> dict[int, int]:
        """Return where a stream ends; partitions that hold nothing are left out.

        One that nobody keeps ends nowhere; what was received of it for a query does.
        """
        found = file.streams[stream]
        if found.transport in UNKEPT:
            if query is None:
                return {}
            return {0: SpoolReader(self._spools(file, query) / stream).span().end}
        log = self._reached(found.site or "", file, around).log
        spans = log.ends(found.address)
        return {part: span.end for part, span in spans.items() if span.end > span.first}

    def _spools(self, file: Pipeline, query: str) -> Path:
        """Where that is which is received for a query."""
        return self.folder(as_queries(file).jobs[query], 0).parent / SPOOLS

    def received(self, file: Pipeline, query: str) -> dict[str, dict[str, int]]:
        """Return what receivers counted; see `counts_file` of the ports."""
        spools, found = self._spools(file, query), {}
        for name in as_queries(file).jobs[query].follows:
            if file.streams[name].transport not in UNKEPT:
                continue
            with suppress(OSError, ValueError):
                told = json.loads(counts_file(spools / name).read_text("utf-8"))
                counts = told if isinstance(told, dict) else {}
                found[name] = {what: n for what, n in counts.items() if type(n) is int}
        return found

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
        if found[query].positions and not (place / "checkpoint").is_dir():
            return found  # of an engine that keeps its positions in its ledger
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
    places = {name: f"127.0.0.1:{ports[at]}" for name, at in real.items()}
    return {name: {"bootstrap.servers": at, "address": at} for name, at in places.items()}


@contextmanager
def _with_spools(place: Path) -> Iterator[None]:
    """Let a query's folder hold what was received for it, which lies beside it, for a while."""
    beside, inside = place.parent / SPOOLS, place / SPOOLS
    if not beside.is_dir():
        yield
        return
    shutil.rmtree(inside, ignore_errors=True)
    shutil.copytree(beside, inside, copy_function=os.link, ignore=_PRIVATE)
    try:
        yield
    finally:
        shutil.rmtree(inside)


def _put_spools(place: Path) -> None:
    """Put what was received for a query beside its folder, in the place of what was there."""
    if (place / SPOOLS).is_dir():
        shutil.rmtree(place.parent / SPOOLS, ignore_errors=True)
        (place / SPOOLS).replace(place.parent / SPOOLS)
