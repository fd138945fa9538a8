"""Streams that no broker has, in the place of what is outside.

A job that reads files becomes a query over such a stream, and one that writes them a query into
one: all else (malformed records, ledgers, metrics, stops) is as with every other job.
"""

from __future__ import annotations

from dataclasses import replace

from millrace.model.job import Input, Output
from millrace.model.outside import Holds
from millrace.model.quantity import Size
from millrace.model.stream import Format, Stream
from millrace.ports import JobOrder

#: No name in a file begins like this.
_MARK = "@"
#: The names of what is outside in a job's code.
RECORDS, TICKS = "records", "ticks"
#: The columns of a tick.
_TICK = {"tick": "long", "at": "timestamp"}
#: Nothing outside is as narrow as a broker.
_LARGEST = Size(1024**3)


def outside(stream: str) -> bool:
    """Whether a stream is on no broker because it stands for something outside."""
    return stream.startswith(_MARK)


def bridged(order: JobOrder) -> JobOrder:
    """Return the order with a stream for what is outside; others are returned as they are."""
    job = order.job
    if job.bridge:
        return _copied(order)
    name = f"{_MARK}{job.name}"
    if not job.outside or name in order.pipeline.streams:
        return order
    if job.write is not None:
        stream = replace(
            order.pipeline.streams[job.reads[0]], name=name, topic=None, dead_letters=None, key=()
        )
        stream = replace(stream, format=Format.JSON, schema=None, max_record=_LARGEST)
        made = replace(
            job, sql=_all(job.inputs[0].alias or job.reads[0]), outputs=(Output(stream=name),)
        )
    elif job.read is not None:
        target = order.pipeline.streams[job.writes[0]]
        rows = job.read.kind == "query" or job.read.holds is Holds.PARQUET
        format_ = Format.JSON if rows else target.format
        stream = replace(target, name=name, topic=None, format=format_, key=())
        made = replace(job, sql=_all(RECORDS), inputs=(Input(stream=name, alias=RECORDS),))
    else:
        stream = Stream(name=name, site=job.site, schema=_TICK)
        made = replace(job, inputs=(Input(stream=name, alias=TICKS),))
    streams = {**order.pipeline.streams, name: stream}
    jobs = {**order.pipeline.jobs, job.name: made}
    return replace(order, job=made, pipeline=replace(order.pipeline, streams=streams, jobs=jobs))


def _copied(order: JobOrder) -> JobOrder:
    """The order of a job that copies records: its streams are bytes to it."""
    job = order.job
    ends = {
        name: replace(order.pipeline.streams[name], format=Format.RAW, schema=None, key=())
        for name in (*job.reads, *job.writes)
    }
    made = replace(job, sql=_all(job.inputs[0].alias or job.reads[0]), bridge=None)
    streams = {**order.pipeline.streams, **ends}
    jobs = {**order.pipeline.jobs, job.name: made}
    return replace(order, job=made, pipeline=replace(order.pipeline, streams=streams, jobs=jobs))


def _all(view: str) -> str:
    return f"SELECT * FROM `{view}`"  # noqa: S608 - a checked name
