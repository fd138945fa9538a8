"""Kafkas that are reached over links: a listener for each link that ends at their site.

A Kafka tells its clients, after their first question, at which address to go on. So whoever comes
over a link must be told the address of the link: each link gets a listener of its own, which
advertises where the link begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from millrace.brokers.kafka import ManagedKafka
from millrace.brokers.kafka.server import Server
from millrace.experiment.links import Carrier, Link
from millrace.machine import Java, free_ports


@dataclass(frozen=True, slots=True)
class Door:
    """A listener of a site's broker for who comes from another site over a link."""

    peer: str
    #: Where the broker listens, and where clients at the other site connect.
    port: int
    address: str


@dataclass(slots=True)
class Doors:
    """The doors of all sites; any thread may call."""

    links: Sequence[Link]
    carrier: Carrier
    _doors: dict[str, tuple[Door, ...]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, site: str) -> tuple[Door, ...]:
        """Return the doors of a site, made when they are first asked for."""
        with self._lock:
            if site not in self._doors:
                mine = [link for link in self.links if site in link.sites]
                ports = free_ports(len(mine))
                self._doors[site] = tuple(
                    self._door(site, link, port) for link, port in zip(mine, ports, strict=True)
                )
            return self._doors[site]

    def _door(self, site: str, link: Link, port: int) -> Door:
        (peer,) = (name for name in link.sites if name != site)
        return Door(peer, port, self.carrier.carry(link, f"127.0.0.1:{port}", at=site))

    def address(self, here: str, site: str, direct: str) -> str:
        """Return where the broker of a site is reached from here: over their link, if any."""
        return next((door.address for door in self.of(site) if door.peer == here), direct)

    def seen_from(self, here: str, brokers: Mapping[str, str]) -> dict[str, str]:
        """Return where the brokers of other sites are reached from here."""
        return {site: self.address(here, site, direct) for site, direct in brokers.items()}


class _Server(Server):
    """A Kafka with doors."""

    doors: tuple[Door, ...] = ()

    def _write_properties(self, port: int, controller: int) -> None:
        self.settings = {**self.settings, **listeners(port, controller, self.doors)}
        super()._write_properties(port, controller)


class DooredKafka(ManagedKafka):
    """A Kafka of ours that is reached over links, too."""

    def __init__(self, place: Path, java: Java, jars: Path, doors: tuple[Door, ...]) -> None:
        super().__init__(place, java, jars)
        self._server = _Server(place, java, jars, {})
        self._server.doors = doors


def listeners(port: int, controller: int, doors: Sequence[Door]) -> dict[str, str]:
    """Return the settings of a Kafka with a listener for each door."""
    named = {f"LINK{number}": door for number, door in enumerate(doors)}
    own = [f"CLIENTS://127.0.0.1:{port}", f"CONTROLLER://127.0.0.1:{controller}"]
    return {
        "listeners": ",".join(
            [*own, *(f"{name}://127.0.0.1:{door.port}" for name, door in named.items())]
        ),
        "advertised.listeners": ",".join(
            [own[0], *(f"{name}://{door.address}" for name, door in named.items())]
        ),
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in ("CLIENTS", "CONTROLLER", *named)
        ),
    }
