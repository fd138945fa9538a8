"""Orders for engines: a job with all that it needs at this moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from millrace.model.graph import in_order
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.status import JobFacts
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
    clients: Mapping[str, Mapping[str, str]],
    places: Mapping[str, Path],
    code: Path,
    only: Sequence[Job] | None = None,
) -> list[JobOrder]:
    """Return the orders of jobs, writers before their readers."""
    wanted = {job.name for job in (pipeline.jobs.values() if only is None else only)}
    return [
        JobOrder(pipeline, job, clients, places[job.name], code)
        for job in in_order(pipeline)
        if job.name in wanted
    ]
