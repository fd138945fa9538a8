"""A broker: a service that carries streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from millrace.model.stream import Stream
from millrace.ports.log import Log


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """A stream as the broker has it; None is a setting that the broker was not told."""

    partitions: int
    retention_ms: int | None = None
    retention_bytes: int | None = None
    max_record: int | None = None
    compact: bool = False


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """What was seen of a broker. `address` is where clients on this machine reach it."""

    up: bool
    address: str = ""
    pid: int | None = None
    #: How clients connect, by the dialect of their settings (`librdkafka`, `java`); may hold
    #: passwords.
    clients: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    streams: Mapping[str, StreamStatus] = field(default_factory=dict)


class Broker(Protocol):
    """Carries streams at a site."""

    #: Reads and writes its streams.
    log: Log

    def start(self) -> None:
        """Make it serve: one that is managed is started, one that is attached is tried.

        Called again it does nothing while the broker serves. Returning promises that a client can
        write now. Raising promises that nothing of ours is left running.
        """
        ...

    def stop(self) -> None:
        """End what `start` started; data stays. Never raises for one that is gone already."""
        ...

    def status(self) -> BrokerStatus:
        """Look; never raises for a broker that is away: `up` is false then."""
        ...

    def ensure(self, *streams: Stream) -> None:
        """Make the streams be there as declared; a position is open at their first records.

        Returning promises that writers and readers can use them. Raises, with nothing changed,
        where a setting can't be reached without loss (fewer partitions).
        """
        ...

    def drop(self, stream: Stream) -> None:
        """Remove the stream with its records; one that is not there is no error."""
        ...
