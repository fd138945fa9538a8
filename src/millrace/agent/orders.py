"""A pipeline with what is only known at this moment: columns, and partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from millrace.model.pipeline import Pipeline
from millrace.model.site import EngineKind
from millrace.model.status import JobFacts
from millrace.model.stream import UNKEPT
from millrace.plan.fuse import as_queries
from millrace.ports import receiver_name


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


def with_partitions(pipeline: Pipeline, brokers: Mapping[str, Mapping[str, int]]) -> Pipeline:
    """Return the pipeline with the partitions that its streams really have, by site and topic."""
    streams = dict(pipeline.streams)
    for name, stream in pipeline.streams.items():
        there = brokers.get(stream.site or "", {}).get(stream.address)
        if there is not None:
            streams[name] = replace(stream, partitions=there)
    return replace(pipeline, streams=streams)


def received_by(pipeline: Pipeline, stream: str) -> list[str]:
    """Return the names under which a stream is received for queries, where nobody keeps it.

    Programs of the user's own come by names of theirs.
    """
    if pipeline.streams[stream].transport not in UNKEPT:
        return []
    readers = as_queries(pipeline).readers().get(stream, [])
    ours = (job.name for job in readers if job.needs == EngineKind.SPARK and job.jar is None)
    return [receiver_name(pipeline.name, name, stream) for name in ours]
