"""What brokers and drivers are started with on this machine, found when it is first needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from millrace.agent.brokers import site_place
from millrace.agent.fleet import Told
from millrace.agent.making import Workshop
from millrace.agent.pointed import pointed
from millrace.agent.workshop import SiteWorkshop
from millrace.engines.spark.classes import write_archive
from millrace.machine import Folders, fetch_jars, known_java
from millrace.machine.failpoint import wanted
from millrace.ports.link import Depot


@dataclass(slots=True)
class Workshops:
    """Makes the workshops of sites on this machine; any thread may call."""

    folders: Folders
    depot: Depot
    #: Told how far the jars are, and what takes long.
    told: Told | None = None
    say: Callable[[str], None] | None = None
    #: The user's modules where files have no artifacts of them.
    code: Path | None = None
    #: The folder that all sites see, for checkpoints that outlive a site.
    shared: Path | None = None
    _prepared: bool = False
    _lock: Lock = field(default_factory=Lock)

    def workshop(self, pipeline: str, site: str) -> Workshop:
        """Return the workshop of a pipeline at a site."""
        say = self.say or (lambda _: None)
        made = SiteWorkshop(
            pipeline, site, self.folders, self.prepare, self.depot, say, self.code, self.shared
        )
        return pointed(made) if wanted() else made

    def place(self, pipeline: str, site: str) -> Path:
        """Return the folder of a pipeline at a site."""
        return site_place(self.folders, pipeline, site)

    def prepare(self) -> None:
        """Fetch the jars once, and prepare quick starts once."""
        with self._lock:
            if self._prepared:
                return
            cache = self.folders.cache
            java = known_java(cache)
            (kafka,) = fetch_jars(["kafka"], java, cache, self.told)
            if self.say is not None:
                from millrace.brokers.kafka.classes import (  # noqa: PLC0415 - an extra
                    write_archive as write_broker_archive,
                )

                write_broker_archive(java, kafka, self.say)
                write_archive(java, cache, self.say)
            self._prepared = True
