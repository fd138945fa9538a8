"""What a user declares in one file: sites, streams, jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millrace.errors import Location
from millrace.model.job import Job
from millrace.model.pilot import Pilot
from millrace.model.site import Site
from millrace.model.stream import Stream


@dataclass(frozen=True)
class Pipeline:
    """The desired state, complete: nothing in it is left to guess."""

    name: str
    description: str = ""
    sites: Mapping[str, Site] = field(default_factory=dict)
    pilots: Mapping[str, Pilot] = field(default_factory=dict)
    streams: Mapping[str, Stream] = field(default_factory=dict)
    jobs: Mapping[str, Job] = field(default_factory=dict)
    at: Location | None = field(default=None, compare=False, repr=False)

    def writers(self) -> dict[str, list[Job]]:
        """Return the jobs that write each stream."""
        found: dict[str, list[Job]] = {name: [] for name in self.streams}
        for job in self.jobs.values():
            for stream in dict.fromkeys(job.writes):
                found.setdefault(stream, []).append(job)
        return found

    def readers(self) -> dict[str, list[Job]]:
        """Return the jobs that read each stream."""
        found: dict[str, list[Job]] = {name: [] for name in self.streams}
        for job in self.jobs.values():
            for stream in dict.fromkeys(job.reads):
                found.setdefault(stream, []).append(job)
        return found

    def rejecters(self) -> dict[str, list[Job]]:
        """Return the jobs that put malformed records into each stream."""
        found: dict[str, list[Job]] = {name: [] for name in self.streams}
        for job in self.jobs.values():
            read = (self.streams.get(name) for name in job.follows)
            named = (stream.dead_letters for stream in read if stream is not None)
            for name in dict.fromkeys(named):
                if name is not None:
                    found.setdefault(name, []).append(job)
        return found
