"""Streams of other brokers than Kafka: which they are, and where what is received of them lies.

Spark knows Kafka by itself. A stream of another broker is read by the positions of its log, or of
the spool into which it is received where its broker keeps no records; it is written by its log.
"""

from __future__ import annotations

from pathlib import Path

from millrace.machine.secrets import resolved
from millrace.model.site import BrokerKind
from millrace.model.stream import Stream
from millrace.ports import BrokerPlugin, JobOrder, Reception, receiver_name
from millrace.ports.plugins import BROKERS, installed

#: Beside the folders of a query's progress: what is received for it outlives each of them.
SPOOLS = "spools"


def kind_of(order: JobOrder, stream: Stream) -> str:
    """Return what kind of broker carries a stream."""
    site = order.pipeline.sites.get(stream.site or "")
    return site.broker.kind if site is not None and site.broker is not None else BrokerKind.KAFKA


def by_spark(order: JobOrder, stream: Stream) -> bool:
    """Whether Spark itself reads and writes a stream."""
    return kind_of(order, stream) == BrokerKind.KAFKA


def plugin_of(order: JobOrder, stream: Stream) -> BrokerPlugin:
    """Return the plug-in of the broker that carries a stream."""
    found: BrokerPlugin = installed().load(BROKERS, kind_of(order, stream))
    return found


def others(order: JobOrder) -> list[str]:
    """Return the streams of an order that Spark does not know by itself."""
    names = dict.fromkeys(name for job in order.jobs for name in (*job.reads, *job.writes))
    streams = order.pipeline.streams
    return [
        name
        for name in names
        if name in streams and name not in order.inside and not by_spark(order, streams[name])
    ]


def client_of(order: JobOrder, stream: Stream) -> dict[str, str]:
    """Return how a stream is reached: as its broker is, with what the stream itself says."""
    own = resolved(stream.options, f"streams.{stream.name}.options")
    return {**order.brokers[stream.site or ""], **own}


def read_elsewhere(order: JobOrder) -> list[Stream]:
    """Return the inputs of a query that Spark does not know by itself, each once."""
    names = dict.fromkeys(name for job in order.jobs for name in job.follows)
    return [order.pipeline.streams[name] for name in others(order) if name in names]


def reception(order: JobOrder, stream: Stream) -> Reception:
    """Return how a stream is received for a query."""
    return Reception(
        client_of(order, stream),
        stream.address,
        receiver_name(order.pipeline.name, order.job.name, stream.name),
        spool_of(order, stream.name),
    )


def settings_file(order: JobOrder, stream: Stream) -> Path:
    """Return the file that tells those who read a stream's log how they reach it."""
    return order.place / f"log-{stream.name}.json"


def spool_of(order: JobOrder, stream: str) -> Path:
    """Return the folder into which a stream is received for a query."""
    return order.place.parent / SPOOLS / stream
