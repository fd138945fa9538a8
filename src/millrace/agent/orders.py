"""Orders for engines: a job with all that it needs at this moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from millrace.model.graph import in_order
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.status import JobFacts
from millrace.plan.fuse import as_queries
from millrace.ports import BrokerStatus, JobOrder


def with_schemas(pipeline: Pipeline, facts: Mapping[str, JobFacts]) -> Pipeline:
    """Return the pipeline with the schemas of streams that only their writers know."""
    found = {}
    for job in pipeline.jobs.values():
        schemas = facts[job.name].schemas if job.name in facts else {}
        for name in job.writes:
            if schemas.get(name) and pipeline.streams[name].schema is None:
                found[name] = schemas[name]
    streams = {
        name: replace(stream, schema=found[name]) if name in found else stream
        for name, stream in pipeline.streams.items()
    }
    return replace(pipeline, streams=streams)


@dataclass(frozen=True, slots=True)
class Clients:
    """How each site's broker is reached: by the names of Java's settings, and librdkafka's."""

    readers: Mapping[str, Mapping[str, str]]
    writers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def with_partitions(pipeline: Pipeline, brokers: Mapping[str, BrokerStatus]) -> Pipeline:
    """Return the pipeline with the partitions that its streams really have."""
    streams = dict(pipeline.streams)
    for name, stream in pipeline.streams.items():
        broker = brokers.get(stream.site or "")
        there = broker.streams.get(stream.address) if broker is not None else None
        if there is not None:
            streams[name] = replace(stream, partitions=there.partitions)
    return replace(pipeline, streams=streams)


def orders(
    pipeline: Pipeline,
    clients: Clients,
    places: Mapping[str, Path],
    code: Path,
    only: Sequence[Job] | None = None,
) -> list[JobOrder]:
    """Return the orders of queries, writers before their readers; all, or those of `only`."""
    whole = as_queries(pipeline)
    inside = frozenset(pipeline.streams.keys() - whole.streams.keys())
    wanted = {job.name for job in (whole.jobs.values() if only is None else only)}
    return [
        JobOrder(
            pipeline,
            pipeline.jobs[query.name],
            clients.readers,
            places[query.name],
            code,
            query.members,
            inside if query.members else frozenset(),
            clients.writers,
        )
        for query in in_order(whole)
        if query.name in wanted
    ]
