"""A deployment as one pipeline, for the planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from millrace.coordinator.deployment import Deployment
from millrace.coordinator.files import Files
from millrace.coordinator.phases import PART
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.places import Key
from millrace.model.site import Site
from millrace.model.status import Observed
from millrace.model.stream import Stream
from millrace.ports.link import Thing


def observed(deployment: Deployment, files: Files, wanted: int) -> Observed:
    """Return the pipeline that a deployment is; what stands still is down.

    Where two streams have one name, that of the wanted file keeps it: its jobs are the same then.
    """
    names = _Names.of(deployment, files, wanted)
    jobs = {
        query: names.job(files.queries(placed.goal.revision).jobs[query], placed.goal.revision)
        for query, placed in deployment.jobs.items()
    }
    down = frozenset(
        name
        for name, placed in deployment.jobs.items()
        if not placed.goal.running and not placed.ended
    )
    pipeline = Pipeline(
        files[wanted].name,
        sites=_sites(deployment, files),
        streams=names.streams(),
        jobs=jobs,
    )
    return Observed(pipeline, down, queries=True)


@dataclass(frozen=True, slots=True)
class _Names:
    """The streams of a deployment by where they really are, each with a name of its own."""

    files: Files
    things: Mapping[Key, Thing]
    called: Mapping[Key, str]

    @classmethod
    def of(cls, deployment: Deployment, files: Files, wanted: int) -> _Names:
        things = {files.key(thing): thing for thing in sorted(deployment.streams)}
        called: dict[Key, str] = {}
        alike = Counter(name for name, _ in things.values())
        for key, (name, number) in things.items():
            stays = name in files.queries(wanted).streams and files.key((name, wanted)) == key
            plain = alike[name] == 1 or stays
            called[key] = name if plain else f"{name}{PART}{number}"
        return cls(files, things, called)

    def streams(self) -> dict[str, Stream]:
        """The streams by their names."""
        found = {}
        for key, (name, number) in self.things.items():
            stream, called = self.files[number].streams[name], self.called[key]
            letters = stream.dead_letters and self.name(stream.dead_letters, number)
            if called == name and letters == stream.dead_letters:
                found[name] = stream  # as nearly all are
                continue
            topic = stream.topic if called == name else stream.address
            found[called] = replace(stream, name=called, topic=topic, dead_letters=letters)
        return found

    def name(self, name: str, number: int) -> str:
        """What a stream of a file is called here; one that is not there yet as it is there."""
        return self.called.get(self.files.key((name, number)), name)

    def job(self, job: Job, number: int) -> Job:
        """A job of a file with the names that its streams have here."""
        used = {name for one in (job, *job.members) for name in (*one.reads, *one.writes)}
        if all(self.name(name, number) == name for name in used):
            return job
        inputs = (replace(port, stream=self.name(port.stream, number)) for port in job.inputs)
        outputs = (replace(port, stream=self.name(port.stream, number)) for port in job.outputs)
        members = tuple(self.job(member, number) for member in job.members)
        return replace(job, inputs=tuple(inputs), outputs=tuple(outputs), members=members)


def _sites(deployment: Deployment, files: Files) -> dict[str, Site]:
    """The sites as they are: a broker that was not started yet is not there."""
    numbers = {number for _, number in deployment.streams | deployment.brokers}
    numbers |= {placed.goal.revision for placed in deployment.jobs.values()}
    serving = {name for name, _ in deployment.brokers}
    found = {}
    for number in sorted(numbers):
        for name, site in files[number].sites.items():
            managed = site.broker is not None and site.broker.managed
            found[name] = replace(site, broker=None) if managed and name not in serving else site
    return found
