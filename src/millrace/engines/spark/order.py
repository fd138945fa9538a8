"""A job's order as it travels from the agent to the driver."""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.stream import Stream
from millrace.ports import JobOrder
from millrace.spec import FileFormat, load_text
from millrace.wire import pipeline_document


def order_document(order: JobOrder) -> dict[str, Any]:
    """Return the order as plain data; the pipeline is cut down to what the job touches."""
    return {
        "pipeline": pipeline_document(part_of(order.pipeline, order.jobs)),
        "job": order.job.name,
        "fused": [job.name for job in order.fused],
        "inside": sorted(order.inside),
        "brokers": {site: dict(settings) for site, settings in order.brokers.items()},
        "writers": {site: dict(settings) for site, settings in order.writers.items()},
        "place": str(order.place),
        "code": str(order.code),
    }


def read_order(document: dict[str, Any]) -> JobOrder:
    """Return the order of a document."""
    text = json.dumps(document["pipeline"])
    pipeline = load_text(text, "order", file_format=FileFormat.NATIVE).required()
    return JobOrder(
        pipeline,
        pipeline.jobs[document["job"]],
        document["brokers"],
        Path(document["place"]),
        Path(document["code"]),
        tuple(pipeline.jobs[name] for name in document["fused"]),
        frozenset(document["inside"]),
        document["writers"],
    )


def same_order(one: JobOrder, other: JobOrder) -> bool:
    """Whether two orders are the same but for their places, and schemas found out in between."""
    return (
        one.jobs == other.jobs
        and one.inside == other.inside
        and dict(one.brokers) == dict(other.brokers)
        and dict(one.writers) == dict(other.writers)
        and one.code == other.code
        and _same_streams(one, other)
    )


def _same_streams(one: JobOrder, other: JobOrder) -> bool:
    """Whether streams are the same; of a schema that only one order knows nobody can say."""
    mine, yours = (part_of(order.pipeline, order.jobs).streams for order in (one, other))
    if mine.keys() != yours.keys():
        return False
    for name, stream in mine.items():
        schemas = (stream.schema, yours[name].schema)
        if None not in schemas and schemas[0] != schemas[1]:
            return False
        if replace(stream, schema=None) != replace(yours[name], schema=None):
            return False
    return True


def part_of(pipeline: Pipeline, jobs: Sequence[Job]) -> Pipeline:
    """Return the pipeline of some jobs: they, their streams, their dead letters and sites."""
    names = dict.fromkeys(name for job in jobs for name in (*job.reads, *job.writes))
    for stream in [pipeline.streams[name] for name in names]:
        if stream.dead_letters is not None:
            names[stream.dead_letters] = None
    streams = {name: _alone(pipeline.streams[name], names) for name in names}
    sites = {stream.site or "" for stream in streams.values()} | {job.site or "" for job in jobs}
    return Pipeline(
        pipeline.name,
        sites={
            name: replace(site, pilot=None)
            for name, site in pipeline.sites.items()
            if name in sites
        },
        streams=streams,
        jobs={job.name: job for job in jobs},
    )


def _alone(stream: Stream, names: Container[str]) -> Stream:
    """A stream without what only makes sense among all of its users."""
    letters = stream.dead_letters if stream.dead_letters in names else None
    return replace(stream, rate=None, dead_letters=letters)
