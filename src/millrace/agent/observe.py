"""What is there: what was applied last, corrected by what brokers really have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from millrace.model.pipeline import Pipeline
from millrace.model.quantity import Duration, Size
from millrace.model.status import Observed
from millrace.model.stream import Stream
from millrace.plan.fuse import fusion
from millrace.ports import BrokerStatus, StreamStatus


def observed(applied: Pipeline, desired: Pipeline, brokers: Mapping[str, BrokerStatus]) -> Observed:
    """Return the pipeline as it is; none of its jobs runs.

    A topic that is there with other settings than the file's is a difference, whoever made it; a
    stream whose topic is gone is not there; one inside a query has none.
    """
    inside = fusion(applied).inside
    streams = {name: applied.streams[name] for name in inside}
    for name, stream in {**desired.streams, **applied.streams}.items():
        there = _topic(stream, brokers)
        if there is not None and name not in inside:
            streams[name] = as_seen(desired.streams.get(name, stream), stream, there)
    sites = {name: site for name, site in desired.sites.items() if name in applied.sites}
    there_again = replace(
        applied,
        streams=streams,
        sites={**applied.sites, **sites} if applied.name else sites,
        name=applied.name or desired.name,
    )
    return Observed(there_again, frozenset(applied.jobs))


def _topic(stream: Stream, brokers: Mapping[str, BrokerStatus]) -> StreamStatus | None:
    broker = brokers.get(stream.site or "")
    return broker.streams.get(stream.address) if broker is not None else None


def as_seen(desired: Stream, applied: Stream, there: StreamStatus) -> Stream:
    """Return a stream with the settings that its topic has; silence means as declared."""
    retention: Duration | Size | None = None
    if there.retention_ms is not None:
        retention = Duration(there.retention_ms * 1_000_000)
    elif there.retention_bytes is not None:
        retention = Size(there.retention_bytes)
    same = desired.retention == retention
    return replace(
        applied,
        partitions=there.partitions,
        retention=desired.retention if same else retention,
        max_record=Size(there.max_record) if there.max_record is not None else None,
        compact=there.compact,
    )
