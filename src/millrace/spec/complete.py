"""What a file leaves to be understood: the only site, a stream's place, its transport."""

from __future__ import annotations

from dataclasses import replace

from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.site import Broker, Site
from millrace.model.stream import Promise, Stream, Transport

#: The site of a file that names none.
LOCAL = "local"


def complete(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with nothing left to guess that its file makes clear."""
    sites = dict(pipeline.sites)
    if not sites and (pipeline.jobs or pipeline.streams):
        sites[LOCAL] = Site(name=LOCAL, broker=Broker(), at=pipeline.at)
    only = next(iter(sites)) if len(sites) == 1 else None
    jobs = {
        name: job if job.site is not None or only is None else replace(job, site=only)
        for name, job in pipeline.jobs.items()
    }
    whole = replace(pipeline, sites=sites, jobs=jobs)
    writers, readers = whole.writers(), whole.readers()
    streams = {}
    for name, stream in pipeline.streams.items():
        place = stream.site or only or _common(writers[name]) or _common(readers[name])
        streams[name] = _carried(stream, place, sites)
    for job in jobs.values():
        streams |= _as_bridged(job, streams)
    promised = {name: _promised(job, streams) for name, job in jobs.items()}
    return replace(whole, streams=streams, jobs=promised)


def _promised(job: Job, streams: dict[str, Stream]) -> Job:
    """The job with the promise of its streams, where it has none of its own."""
    asked = {streams[name].promise for name in job.writes if name in streams}
    if job.promise is not None or Promise.NO_DUPLICATES not in asked:
        return job
    return replace(job, promise=Promise.NO_DUPLICATES)


def _as_bridged(job: Job, streams: dict[str, Stream]) -> dict[str, Stream]:
    """What a bridge writes has the columns of what it reads, where nobody says more."""
    ends = [streams.get(name) for name in (*job.reads[:1], *job.writes[:1])]
    if not job.bridge or None in ends or len(ends) < 2:
        return {}
    source, copy = ends
    if source is None or copy is None or copy.schema is not None:
        return {}
    return {copy.name: replace(copy, schema=source.schema)}


def _common(jobs: list[Job]) -> str | None:
    """The one site that all these jobs are at."""
    sites = {job.site for job in jobs}
    return sites.pop() if len(sites) == 1 else None


def _carried(stream: Stream, place: str | None, sites: dict[str, Site]) -> Stream:
    transport = stream.transport
    if transport is None:
        broker = sites[place].broker if place in sites else None
        transport = _transport(broker.kind) if broker is not None else None
    if place == stream.site and transport == stream.transport:
        return stream
    return replace(stream, site=place, transport=transport)


def _transport(kind: str) -> str:
    """What a broker of a kind carries its streams by: a plug-in's is called as it is."""
    return Transport(kind) if kind in set(Transport) else kind
