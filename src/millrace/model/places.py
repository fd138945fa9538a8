"""Where things really are: two names for one place are one place, one name may move.

An engine or broker that is attached is the address it is reached at; one that is managed is its
site's name with all that would make it another machine. A stream is its topic on its broker. The
planner compares these, so another name for an attached site is no change, and a stream on another
broker is another stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from millrace.model.impact import Impact
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.shape import record_of
from millrace.model.site import Broker, Site
from millrace.model.stream import Stream, Transport

Key = tuple[Any, ...]


@dataclass(frozen=True)
class World:
    """A pipeline by places: every pilot, broker and stream under its key."""

    pipeline: Pipeline

    @cached_property
    def pilots(self) -> dict[Key, str]:
        """The pilots' names by their keys."""
        return {self.pilot_key(name): name for name in self.pipeline.pilots}

    @cached_property
    def brokers(self) -> dict[Key, Site]:
        """The sites whose brokers Millrace runs, by the broker's key."""
        return {
            self.broker_key(site): site
            for site in self.pipeline.sites.values()
            if site.broker is not None and site.broker.managed
        }

    @cached_property
    def streams(self) -> dict[Key, Stream]:
        """The streams by their keys."""
        return {
            self.stream_key(name): self.pipeline.streams[name] for name in self.pipeline.streams
        }

    @cached_property
    def readers(self) -> dict[Key, list[str]]:
        """The jobs that read each stream."""
        return self._users(self.reads)

    @cached_property
    def writers(self) -> dict[Key, list[str]]:
        """The jobs that write each stream."""
        return self._users(self.writes)

    @cached_property
    def rejecters(self) -> dict[Key, list[str]]:
        """The jobs that put malformed records into each stream."""
        return self._users(self.letters)

    def _users(self, used: Callable[[Job], dict[Key, str]]) -> dict[Key, list[str]]:
        found: dict[Key, list[str]] = {}
        for name, job in self.pipeline.jobs.items():
            for key in used(job):
                found.setdefault(key, []).append(name)
        return found

    @cached_property
    def _sites(self) -> dict[str, Key]:
        return {name: self._site_key(site) for name, site in self.pipeline.sites.items()}

    @cached_property
    def _stream_keys(self) -> dict[str, Key]:
        return {name: self._key_of(stream) for name, stream in self.pipeline.streams.items()}

    def pilot_key(self, name: str) -> Key:
        """A pilot is its name and all that can't change while it lives."""
        pilot = self.pipeline.pilots.get(name)
        if pilot is None:
            return (name,)
        fixed = (field for field in record_of(type(pilot)).fields if field.change >= Impact.REPLACE)
        return (name, *(getattr(pilot, field.attribute) for field in fixed))

    def _site_key(self, site: Site) -> Key:
        pilot = self.pilot_key(site.pilot) if site.pilot is not None else None
        return ("managed", site.name, site.host, pilot)

    def broker_key(self, site: Site) -> Key:
        """A broker is its address, or the site that it is managed at."""
        broker = site.broker or Broker()
        if broker.address is not None:
            return (broker.kind, "attached", broker.address.rstrip("/"))
        return (broker.kind, *self._sites[site.name])

    def stream_key(self, name: str) -> Key:
        """A stream is its topic on its broker; a direct one its name at its site."""
        return self._stream_keys.get(name, (name,))

    def _key_of(self, stream: Stream) -> Key:
        site = self.pipeline.sites.get(stream.site or "")
        if stream.transport == Transport.ZMQ or site is None:
            return (stream.transport, stream.name, stream.site)
        return (*self.broker_key(site), stream.address)

    def engine_key(self, job: Job) -> Key:
        """A job's engine is its address, or the site that it is managed at."""
        site = self.pipeline.sites.get(job.site or "")
        kind = job.needs
        engine = site.engine(kind) if site is not None and kind is not None else None
        if site is None:
            return (kind, job.site)
        if engine is not None and engine.address is not None:
            return (kind, "attached", engine.address.rstrip("/"))
        return (kind, *self._sites[site.name], engine.master if engine is not None else None)

    def reads(self, job: Job) -> dict[Key, str]:
        """The keys of the streams that a job reads, with their names."""
        return {self.stream_key(name): name for name in job.reads}

    def letters(self, job: Job) -> dict[Key, str]:
        """The keys of the streams that get what is malformed in a job's inputs."""
        inputs = (self.pipeline.streams.get(name) for name in job.reads)
        named = (stream.dead_letters for stream in inputs if stream is not None)
        return {self.stream_key(name): name for name in named if name is not None}

    def writes(self, job: Job) -> dict[Key, str]:
        """The keys of the streams that a job writes, with their names."""
        return {self.stream_key(name): name for name in job.writes}
