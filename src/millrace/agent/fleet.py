"""The processes of a pipeline on this machine: a broker and drivers for each site."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from millrace.agent.brokers import broker_of, site_place
from millrace.agent.secrets import resolved
from millrace.brokers.kafka import AttachedKafka, ManagedKafka
from millrace.brokers.kafka.classes import write_archive as write_broker_archive
from millrace.engines.spark.classes import spark_archive, write_archive
from millrace.engines.spark.engine import SparkEngine
from millrace.errors import OperationFailed
from millrace.machine import Folders, Java, fetch_jars, find_java
from millrace.model.job import Isolation, Job
from millrace.model.pipeline import Pipeline
from millrace.model.site import EngineKind, Site

#: The group of jobs that name none.
MAIN_GROUP = "main"
Told = Callable[[int, int], None]


@dataclass(slots=True)
class Fleet:
    """Brokers by site, drivers by site and group; made, but not started."""

    pipeline: Pipeline
    folders: Folders
    java: Java
    brokers: dict[str, AttachedKafka] = field(default_factory=dict)
    drivers: dict[str, SparkEngine] = field(default_factory=dict)
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
        site = self.pipeline.sites[job.site or ""]
        engine = site.engine(EngineKind.SPARK)
        if job.needs is not EngineKind.SPARK or engine is None:
            raise OperationFailed(
                "not-yet",
                f"job {job.name} is for {job.needs or job.kind}, which can't be run yet",
                "use sql, python or map jobs at a site whose engine is spark",
            )
        if name not in self.drivers:
            place = site_place(self.folders, self.pipeline.name, site.name)
            self.drivers[name] = SparkEngine(
                place / "drivers" / name.partition("/")[2],
                self.java,
                [self._jars],
                master=engine.master or engine.address,
                options=resolved(engine.options, f"sites.{site.name}.engine.options"),
                java_options=spark_archive(self.java, self.folders.cache).options,
            )

    def launch(self) -> None:
        """Begin to start every process and return at once."""
        for driver in self.drivers.values():
            driver.launch()
        for broker in self.brokers.values():
            if isinstance(broker, ManagedKafka):
                broker.launch()

    def driver(self, job: Job) -> SparkEngine:
        """Return the driver that hosts a job."""
        return self.drivers[own_driver(job) if job.name in self.apart else driver_name(job)]

    def jobs_of(self, name: str) -> list[Job]:
        """Return the jobs that a driver hosts."""
        driver = self.drivers[name]
        return [job for job in self.pipeline.jobs.values() if self.driver(job) is driver]

    def set_apart(self, job: Job) -> None:
        """Give a job a driver of its own, and begin to start it."""
        self.driver(job).forget(job.name)
        self._make_driver(job, own_driver(job))
        self.apart.add(job.name)
        self.driver(job).launch()

    def clients(self) -> Mapping[str, Mapping[str, str]]:
        """Return how Spark reaches each site's broker."""
        return {name: broker.clients()["java"] for name, broker in self.brokers.items()}


def driver_name(job: Job) -> str:
    """Return the name of a job's driver: its site and group, or its own when set apart."""
    if job.isolation is Isolation.DEDICATED:
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
