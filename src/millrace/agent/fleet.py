"""The processes of a pipeline on this machine: a broker and drivers for each site."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from millrace.agent.brokers import broker_of, site_place
from millrace.agent.orders import Clients
from millrace.brokers.kafka import AttachedKafka, ManagedKafka
from millrace.brokers.kafka.classes import write_archive as write_broker_archive
from millrace.engines.spark.classes import spark_archive, write_archive
from millrace.engines.spark.engine import SparkEngine
from millrace.engines.spark.program import ProgramEngine
from millrace.errors import OperationFailed
from millrace.machine import Folders, Java, fetch_jars, find_java
from millrace.machine.secrets import resolved
from millrace.model.job import Isolation, Job
from millrace.model.pipeline import Pipeline
from millrace.model.site import EngineKind, Site
from millrace.plan.fuse import as_queries
from millrace.ports import Engine

#: The group of jobs that name none.
MAIN_GROUP = "main"
#: The program of a driver, by its module.
DRIVER = "millrace.agent.driver"
Told = Callable[[int, int], None]


class Driver(Engine, Protocol):
    """An engine whose process the agent looks after."""

    @property
    def alive(self) -> bool:
        """Whether it runs, as far as it must run before a job does."""
        ...

    @property
    def page(self) -> str:
        """Its web page, if it has one."""
        ...

    def launch(self) -> None:
        """Begin to start it and return at once."""
        ...

    def wait(self) -> None:
        """Return when it is up; raises with the way out where it does not come up."""
        ...

    def forget(self, job: str) -> None:
        """Know nothing of a job any more: another driver takes it over."""
        ...

    def kill(self, grace: float = 0.0) -> None:
        """End its processes."""
        ...


@dataclass(slots=True)
class Fleet:
    """Brokers by site, drivers by site and group; made, but not started."""

    pipeline: Pipeline
    folders: Folders
    java: Java
    brokers: dict[str, AttachedKafka] = field(default_factory=dict)
    drivers: dict[str, Driver] = field(default_factory=dict)
    #: Jobs that share a driver by the file and were set apart (see `suspects`).
    apart: set[str] = field(default_factory=set)
    _jars: Path = field(default_factory=Path)

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        folders: Folders,
        told: Told | None = None,
        say: Callable[[str], None] | None = None,
    ) -> Fleet:
        """Return the fleet of a pipeline; fetches the jars once, and `told` hears how far it is.

        With `say`, who hears of it, both are also prepared to start quickly, once.
        """
        java = find_java(folders.cache)
        kafka, connector = fetch_jars(["kafka", "spark-kafka"], java, folders.cache, told)
        if say is not None:
            write_broker_archive(java, kafka, say)
            write_archive(java, folders.cache, say)
        fleet = cls(pipeline, folders, java, _jars=connector)
        for site in pipeline.sites.values():
            _only_here(site)
            if site.broker is not None:
                place = site_place(folders, pipeline.name, site.name)
                fleet.brokers[site.name] = broker_of(site, place, java, kafka)
        for job in pipeline.jobs.values():
            fleet._make_driver(job, driver_name(job))
        return fleet

    def _make_driver(self, job: Job, name: str) -> None:
        if name not in self.drivers:
            tools = Tools(self.java, self._jars, self._jars, self.folders)
            self.drivers[name] = driver_of(self.pipeline, job, name, tools)

    def launch(self) -> None:
        """Begin to start every process and return at once."""
        for driver in self.drivers.values():
            driver.launch()
        for broker in self.brokers.values():
            if isinstance(broker, ManagedKafka):
                broker.launch()

    def driver(self, job: Job) -> Driver:
        """Return the driver that hosts a job."""
        return self.drivers[own_driver(job) if job.name in self.apart else driver_name(job)]

    def jobs_of(self, name: str) -> list[Job]:
        """Return the queries that a driver hosts."""
        driver, queries = self.drivers[name], as_queries(self.pipeline).jobs.values()
        return [job for job in queries if self.driver(job) is driver]

    def set_apart(self, job: Job) -> None:
        """Give a job a driver of its own, and begin to start it."""
        for one in job.members or (job,):
            self.driver(job).forget(one.name)
        self._make_driver(job, own_driver(job))
        self.apart.add(job.name)
        self.driver(job).launch()

    def clients(self) -> Clients:
        """Return how drivers reach each site's broker."""
        found = {name: broker.clients() for name, broker in self.brokers.items()}
        return Clients(
            {name: dialects["java"] for name, dialects in found.items()},
            {name: dialects["librdkafka"] for name, dialects in found.items()},
        )


@dataclass(frozen=True, slots=True)
class Tools:
    """What brokers and drivers are started with on this machine."""

    java: Java
    #: The folders of Kafka's jars, and of those with which Spark reaches it.
    kafka: Path
    connector: Path
    folders: Folders


def driver_of(pipeline: Pipeline, job: Job, name: str, tools: Tools) -> Driver:
    """Return the driver of a name for jobs like this one, not started."""
    site = pipeline.sites[job.site or ""]
    engine = site.engine(EngineKind.SPARK)
    if job.needs is not EngineKind.SPARK or engine is None:
        raise OperationFailed(
            "not-yet",
            f"job {job.name} is for {job.needs or job.kind}, which can't be run yet",
            "use sql, python or map jobs at a site whose engine is spark",
        )
    place = site_place(tools.folders, pipeline.name, site.name)
    place = place / "drivers" / name.partition("/")[2]
    master = engine.master or engine.address
    options = resolved(engine.options, f"sites.{site.name}.engine.options")
    jars = [tools.connector]
    if job.jar is not None:
        return ProgramEngine(place, tools.java, jars, master=master, options=options)
    return SparkEngine(
        place,
        tools.java,
        jars,
        master=master,
        options=options,
        java_options=spark_archive(tools.java, tools.folders.cache).options,
        program=DRIVER,
    )


def driver_name(job: Job) -> str:
    """Return the name of a job's driver: its site and group, or its own when set apart."""
    if job.isolation is Isolation.DEDICATED or job.jar is not None:
        return own_driver(job)
    return f"{job.site}/{job.group or MAIN_GROUP}"


def own_driver(job: Job) -> str:
    """Return the name of a driver for a job alone."""
    return f"{job.site}/job-{job.name}"


def _only_here(site: Site) -> None:
    if site.pilot is not None or site.host not in (None, "localhost", "127.0.0.1"):
        raise OperationFailed(
            "elsewhere",
            f"site {site.name} is not this machine ({site.pilot or site.host})",
            "millrace run runs a pipeline here; choose a profile whose sites are local "
            "(--profile laptop)",
        )
