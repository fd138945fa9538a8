"""How drivers are made on this machine: one for each site and group, and what they need."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from millrace.agent.brokers import site_place
from millrace.engines.spark.classes import spark_archive
from millrace.engines.spark.engine import SparkEngine
from millrace.engines.spark.program import ProgramEngine
from millrace.errors import OperationFailed
from millrace.machine import Folders, Java
from millrace.machine.secrets import resolved
from millrace.model.job import Isolation, Job
from millrace.model.pipeline import Pipeline
from millrace.model.site import EngineKind
from millrace.model.types import Options, Secret
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
    where = f"sites.{site.name}.engine.options"
    _refuse_secrets(engine.options, where, program=job.jar is not None)
    options = resolved(engine.options, where)
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


def _refuse_secrets(options: Options | None, where: str, *, program: bool) -> None:
    """Raise for a secret that would stand on a command line, which everybody may read.

    All settings of a driver do; those of a program stand in a file, but for options of Java.
    """
    for name, value in (options or {}).items():
        if isinstance(value, Secret) and (not program or "JavaOptions" in name):
            raise OperationFailed(
                "secret-on-line",
                f"{where}.{name}: Spark takes this setting on its command line, so it can't be "
                "secret",
                "write it as it is, or leave it out",
            )


def settings_of(pipeline: Pipeline, job: Job) -> str:
    """Return a short text for what a job's driver is started with; the same for the same."""
    engine = pipeline.sites[job.site or ""].engine(EngineKind.SPARK)
    if engine is None:
        return ""
    given = (engine.master or engine.address, sorted((engine.options or {}).items()))
    return hashlib.sha256(repr(given).encode()).hexdigest()[:8]


def driver_name(job: Job) -> str:
    """Return the name of a job's driver: its site and group, or its own when set apart."""
    if job.isolation is Isolation.DEDICATED or job.jar is not None:
        return own_driver(job)
    return f"{job.site}/{job.group or MAIN_GROUP}"


def own_driver(job: Job) -> str:
    """Return the name of a driver for a job alone."""
    return f"{job.site}/job-{job.name}"
