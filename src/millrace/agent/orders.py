"""A pipeline with what is only known at this moment: columns, and partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from millrace.model.pipeline import Pipeline
from millrace.model.status import JobFacts
from millrace.ports import BrokerStatus


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
