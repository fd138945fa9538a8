"""A broker: a service that carries streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
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

    def status(self, *, whole: bool = True) -> BrokerStatus:
        """Look; never raises for a broker that is away: `up` is false then.

        Without `whole` only for what costs little: of streams their partitions.
        """
        ...

    def ensure(self, *streams: Stream, readers: Sequence[str] = ()) -> None:
        """Make the streams be there as declared; a position is open at their first records.

        A broker that keeps nothing keeps what comes from now on for `readers`, receivers by their
        names (see `Reception`), until they come; those that came before are left alone.

        Returning promises that writers and readers can use them. Raises, with nothing changed,
        where a setting can't be reached without loss (fewer partitions).
        """
        ...

    def drop(self, stream: Stream) -> None:
        """Remove the stream with its records; one that is not there is no error."""
        ...


@dataclass(frozen=True, slots=True)
class BrokerOrder:
    """All that a plug-in needs to make a site's broker."""

    site: str
    #: The folder of the site: what one that is started here keeps is in there.
    place: Path
    #: What all sites of this machine share: things that were fetched once.
    cache: Path
    #: Where one that is already there is reached; None is one that `Broker.start` starts.
    address: str | None = None
    #: As the file has them, with secrets in the place of references.
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def where(self) -> str:
        """Where a user finds the options."""
        return f"sites.{self.site}.broker.options"


class BrokerPlugin(Protocol):
    """What a package offers as an entry point of the group `millrace.brokers`."""

    #: Whether it keeps records for who comes later, so that jobs read its log by positions.
    keeps: bool

    def broker(self, order: BrokerOrder) -> Broker:
        """Return a site's broker, not started; raises for options that it does not know.

        Its `status().clients` has the settings of clients under the plug-in's own name.
        """
        ...

    def log(self, settings: Mapping[str, str]) -> Log:
        """Return the log that is reached by a client's settings, from any process."""
        ...

    def address(self, place: Path) -> str | None:
        """Return where the one that keeps its things in a site's folder is reached, if it runs."""
        ...

    def receiver(self, reception: Reception) -> Sequence[str]:
        """Return the command that receives a stream for a job into a spool (`millrace.spool`).

        Only asked of brokers that keep nothing. The program appends what comes to the spool, and
        acknowledges it when that is on the disk; it forgets what its file `read` says is done. It
        ends when it is told (SIGTERM), and another one of the same name goes on without a gap. Told
        by SIGUSR1 it ends when it has all that its broker had taken by then, and by SIGUSR2 for
        good then: nothing is kept any more for its name. Where trying again does not help it ends
        with 2, or with 3 where another has its name, and the last line that it says tells why.
        What it counts on the way it may tell by a file: see `counts_file`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Reception:
    """A stream that is received for a job; `name` is made by `receiver_name`."""

    settings: Mapping[str, str] = field(repr=False)
    #: The stream's address on the broker.
    stream: str
    #: By which the broker knows the receiver, wherever it runs.
    name: str
    #: The folder of the spool; beside it the receiver may keep what it needs.
    folder: Path


def counts_file(folder: Path) -> Path:
    """Return where a receiver tells, as a JSON object, what it counted since the spool was made.

    People are shown its whole numbers by their names; what else is in it is the receiver's own.
    """
    return folder.with_name(f"{folder.name}.counters.json")


def receiver_name(pipeline: str, query: str, stream: str) -> str:
    """Return by which name a stream is received for a query, wherever that runs."""
    return f"millrace/{pipeline}/{query}/{stream}"
