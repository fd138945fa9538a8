"""Chains on Flink as SpecK had them: at each site a session cluster and a Mosquitto.

Millrace runs them, by Flink's REST API. Mosquittos are started here and attached, since each job
gets the address of a broker as it is reached from the job's own site: over a link, perhaps.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from millrace.brokers.mqtt import ManagedMqtt
from millrace.experiment.links import Carrier, Link
from millrace.experiment.port import Around
from millrace.experiment.sites import LocalSites, local_sites
from millrace.experiment.speck.chains import Chain, Composition
from millrace.experiment.speck.pass_on import ENTRY, compiled
from millrace.machine import Folders, find_java
from millrace.machine.secrets import write_private

_USER: Final = "chains"


@dataclass(frozen=True, slots=True)
class Brokers:
    """Where brokers are, host:port: at their sites, and from another site over a link."""

    direct: Mapping[str, str]
    #: By where one is and whose broker it is.
    linked: Mapping[tuple[str, str], str]
    #: Who comes in with the password of this file.
    password: Path

    def seen(self, here: str, site: str) -> str:
        """Return the address of a site's broker from here, as clients for Java write it."""
        return f"tcp://{self.linked.get((here, site), self.direct[site])}"

    def declared(self, site: str) -> dict[str, Any]:
        """Return a site's broker for a native document."""
        options = {"username": _USER, "password": {"secret": f"file:{self.password}"}}
        return {"kind": "mqtt", "address": f"mqtt://{self.direct[site]}", "options": options}


def composition(brokers: Brokers, jar: Path) -> Composition:
    """Return chains of a jar that passes records on; a version is an argument of its program."""

    def does(chain: Chain, number: int, version: int) -> dict[str, Any]:
        here = chain.sites[number]
        told = {
            "source_broker": brokers.seen(here, chain.place(number)),
            "source_topic": chain.stream(number),
            "sink_broker": brokers.seen(here, chain.place(number + 1)),
            "sink_topic": chain.stream(number + 1),
            "user": _USER,
            "password_file": str(brokers.password),
            "version": str(version),
        }
        arguments = [text for name, value in told.items() for text in (f"--{name}", value)]
        return {
            "engine": "flink",
            "jar": {"path": str(jar), "entry": ENTRY, "arguments": arguments},
        }

    sites = {
        site: {"engine": {"kind": "flink"}, "broker": brokers.declared(site)}
        for site in brokers.direct
    }
    return Composition(sites, does)


@contextmanager
def on_flink(sites: Sequence[str], around: Around) -> Iterator[tuple[LocalSites, Composition]]:
    """Have a coordinator and Mosquittos for the time of a block; Flinks start with their jobs."""
    cache = Folders.of().cache
    jar = compiled(around.folder, find_java(cache), cache)
    password = around.folder / "password"
    write_private(password, secrets.token_urlsafe(32))
    with ExitStack() as stack:
        direct = {}
        for site in sites:
            broker = _mosquitto(around.folder / "brokers" / site, password, stack)
            direct[site] = broker.clients()["mqtt"]["address"].partition("://")[2]
        local = stack.enter_context(local_sites(around))
        linked = _linked(around.declared.links, direct, local.doors.carrier)
        yield local, composition(Brokers(direct, linked, password), jar)


def _mosquitto(place: Path, password: Path, stack: ExitStack) -> ManagedMqtt:
    """Start a broker that ends with a stack."""
    options = {"username": _USER, "password": password.read_text("ascii")}
    broker = ManagedMqtt(place, options, recorded=False)
    stack.callback(broker.stop)
    broker.start()
    return broker


def _linked(
    links: Sequence[Link], direct: Mapping[str, str], carrier: Carrier
) -> dict[tuple[str, str], str]:
    """Open the links between sites in use, in both directions."""
    ends = [(link, *pair) for link in links for pair in (link.sites, link.sites[::-1])]
    return {
        (here, site): carrier.carry(link, direct[site], at=site)
        for link, here, site in ends
        if here in direct and site in direct
    }
