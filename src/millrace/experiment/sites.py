"""Sites of an experiment: a coordinator in this process, a Kafka and a Spark each, and links."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from millrace.agent.brokers import broker_of
from millrace.agent.making import Surroundings, Workshop
from millrace.agent.workshop import SiteWorkshop
from millrace.agent.workshops import Workshops
from millrace.coordinator.home import Home
from millrace.coordinator.revision import Submission
from millrace.coordinator.station import Station
from millrace.coordinator.views import OperationView
from millrace.errors import OperationFailed
from millrace.experiment.doors import DooredKafka, Doors
from millrace.experiment.links import carrying
from millrace.experiment.port import Around
from millrace.machine import Folders, fetch_jars, find_java
from millrace.model.pipeline import Pipeline
from millrace.ports import Broker, JobOrder, Log
from millrace.ports.link import JobGoal
from millrace.spec import FileFormat, load_text
from millrace.stores.artifacts import LocalDepot

APPLY_SECONDS = 600.0


class LinkedWorkshop(SiteWorkshop):
    """A site whose broker has doors, and which goes to other sites by theirs."""

    doors: Doors
    kafka: DooredKafka | None = None

    def broker(self, file: Pipeline) -> Broker:
        """Return the site's broker; a managed Kafka has a door for each link."""
        declared = file.sites[self.site].broker
        doors = self.doors.of(self.site)
        if declared is None or not declared.managed or declared.kind != "kafka" or not doors:
            return super().broker(file)
        if self.kafka is None:
            cache = self.folders.cache
            java = find_java(cache)
            (jars,) = fetch_jars(["kafka"], java, cache)
            self.kafka = DooredKafka(self.place / "kafka", java, jars, doors)
        return self.kafka

    def order(
        self, file: Pipeline, query: str, goal: JobGoal | None, around: Surroundings
    ) -> JobOrder:
        """Return what an engine needs, with brokers of other sites behind their links."""
        return super().order(file, query, goal, self._seen(around))

    def ends(
        self, file: Pipeline, stream: str, around: Surroundings, query: str | None = None
    ) -> dict[int, int]:
        """Return where a stream ends; another site is asked over its link."""
        return super().ends(file, stream, self._seen(around), query)

    def close(self) -> None:
        """End what is left."""
        super().close()
        self._end_kafka()

    def kill(self) -> None:
        """End every process at once."""
        super().kill()
        self._end_kafka()

    def _end_kafka(self) -> None:
        if self.kafka is not None:
            self.kafka.stop()

    def _seen(self, around: Surroundings) -> Surroundings:
        return replace(around, brokers=self.doors.seen_from(self.site, around.brokers))


class LinkedWorkshops(Workshops):
    """Makes workshops with doors."""

    doors: Doors

    def workshop(self, pipeline: str, site: str) -> Workshop:
        """Return the workshop of a pipeline at a site."""
        say = self.say or (lambda _: None)
        made = LinkedWorkshop(pipeline, site, self.folders, self.prepare, self.depot, say)
        made.doors = self.doors
        return made


@dataclass(slots=True)
class LocalSites:
    """A station whose sites are all here."""

    station: Station
    doors: Doors
    around: Around
    folders: Folders

    def apply(self, document: Mapping[str, Any]) -> OperationView:
        """Change a pipeline and return when that is done; raises where it could not be.

        What jobs keep may go: nobody needs it.
        """
        wanted = loaded(document)
        begun = self.station.apply(Submission(wanted, by="experiment", state_loss=True))
        self.around.until(
            lambda: self.station.is_over(begun.id), APPLY_SECONDS, f"{begun.id} goes on", 0.01
        )
        done = self.station.operation(begun.id)
        if done.state != "done":
            raise OperationFailed("not-applied", f"{done.id} is {done.state}: {done.reason}")
        return done

    def running(self, pipeline: str) -> bool:
        """Whether all jobs run."""
        return all(job.state == "running" for job in self.station.jobs(pipeline))

    def address(self, pipeline: str, site: str) -> str:
        """Return where the broker of a site is reached at that site."""
        views = {view.name: view for view in self.station.sites()}
        return views[site].brokers[pipeline]

    def log(self, pipeline: Pipeline, stream: str, here: str | None = None) -> Log:
        """Return the log of a stream, as it is reached from a site; by default from its own."""
        site = pipeline.sites[pipeline.streams[stream].site or ""]
        direct = self.address(pipeline.name, site.name)
        address = self.doors.address(here, site.name, direct) if here is not None else direct
        return broker_of(site, self.folders.state, self.folders.cache, address).log


@contextmanager
def local_sites(around: Around) -> Iterator[LocalSites]:
    """Run a coordinator, and links as declared, for the time of a block; all is ended then."""
    declared, place = around.declared, around.folder
    with carrying(declared.way, place / "links.log", around.say) as carrier:
        doors = Doors(declared.links, carrier)
        home = Home(Folders.of(place / "home"))
        shops = LinkedWorkshops(home.sites, LocalDepot(home.artifacts), say=around.say)
        shops.doors = doors
        station = Station.open(home, shops.workshop, shops.place)
        try:
            yield LocalSites(station, doors, around, home.sites)
        finally:
            station.close()


def loaded(document: Mapping[str, Any]) -> Pipeline:
    """Return the pipeline of a native document, checked."""
    text = json.dumps(document)
    return load_text(text, "experiment.json", file_format=FileFormat.NATIVE).required()
