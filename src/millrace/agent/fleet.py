"""How drivers are made on this machine: one for each site and group, and what they need."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from millrace.agent.brokers import site_place
from millrace.errors import OperationFailed
from millrace.machine import Folders
from millrace.machine.secrets import resolved
from millrace.model.job import Isolation, Job
from millrace.model.pipeline import Pipeline
from millrace.model.site import EngineKind
from millrace.model.types import Options, Secret
from millrace.ports import Engine, EngineOrder, EnginePlugin, JobOrder, JobStatus
from millrace.ports.plugins import ENGINES, installed

#: The group of jobs that name none.
MAIN_GROUP = "main"
#: Kinds that files may name already.
_LATER = frozenset({EngineKind.DASK, EngineKind.PROCESS})
Told = Callable[[int, int], None]


@runtime_checkable
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


class Plain:
    """An engine of which a plug-in gives no more than the port asks: nothing is to be looked after.

    See `Driver`.
    """

    alive = True
    page = ""

    def __init__(self, engine: Engine) -> None:
        self._forgotten: set[str] = set()
        self._engine = engine
        self.examine, self.stop = engine.examine, engine.stop
        self.close, self.kill = engine.close, engine.kill

    def launch(self) -> None:
        """Nothing to do: it starts with its first job."""

    def wait(self) -> None:
        """Nothing to wait for."""

    def start(self, order: JobOrder) -> None:
        """Run a job; see the port."""
        self._forgotten.discard(order.job.name)
        self._engine.start(order)

    def status(self) -> Mapping[str, JobStatus]:
        """Return what is known of each job; see the port."""
        found = self._engine.status()
        return {name: status for name, status in found.items() if name not in self._forgotten}

    def forget(self, job: str) -> None:
        """Know nothing of a job any more."""
        self._forgotten.add(job)


def driver_of(pipeline: Pipeline, job: Job, name: str, folders: Folders) -> Driver:
    """Return the driver of a name for jobs like this one, not started."""
    site, kind = pipeline.sites[job.site or ""], job.needs or job.kind
    engine = site.engine(kind)
    if engine is None or kind in _LATER:
        raise OperationFailed(
            "not-yet",
            f"job {job.name} is for {kind}, which can't be run at site {site.name}",
            "use sql, python or map jobs at a site whose engine is spark",
        )
    place = site_place(folders, pipeline.name, site.name) / "drivers" / name.partition("/")[2]
    where = f"sites.{site.name}.engine.options"
    if kind == EngineKind.SPARK:
        _refuse_secrets(engine.options, where, program=job.jar is not None)
    plugin: EnginePlugin = installed().load(ENGINES, kind)
    made = plugin.engine(
        EngineOrder(
            pipeline.name,
            site.name,
            place,
            folders.cache,
            engine.address,
            engine.master,
            resolved(engine.options, where),
            job.jar is not None,
        )
    )
    return made if isinstance(made, Driver) else Plain(made)


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
    engine = pipeline.sites[job.site or ""].engine(job.needs or "")
    if engine is None:
        return ""
    given = (engine.kind, engine.master or engine.address, sorted((engine.options or {}).items()))
    return hashlib.sha256(repr(given).encode()).hexdigest()[:8]


def driver_name(job: Job) -> str:
    """Return the name of a job's driver: its site and group, or its own when set apart.

    Of other engines a site has one for all.
    """
    if job.needs != EngineKind.SPARK:
        return f"{job.site}/{job.needs}"
    if job.isolation is Isolation.DEDICATED or job.jar is not None:
        return own_driver(job)
    return f"{job.site}/{job.group or MAIN_GROUP}"


def own_driver(job: Job) -> str:
    """Return the name of a driver for a job alone."""
    return f"{job.site}/job-{job.name}"
