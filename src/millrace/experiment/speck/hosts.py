"""What deploys, modifies and deletes chains: Millrace on Spark, or another engine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from millrace.agent.brokers import broker_of
from millrace.experiment.declaration import Cell, number
from millrace.experiment.port import Around
from millrace.experiment.sites import LocalSites, loaded, local_sites
from millrace.experiment.speck.chains import Chain, Composition, on_spark, one_at_each, site_names
from millrace.model.pipeline import Pipeline
from millrace.ports import Log, Record

PIPELINE: Final = "figure6"
THROUGH_SECONDS: Final = 300.0
#: The value of the factor `sites` that leaves it to the machine.
AUTO: Final = "auto"
SITES: Final = 6
#: So many Flinks where there is less memory: each is two processes of Java, some 375 MB.
FEW_SITES: Final = 3
MUCH_MEMORY: Final = 16 << 30


class ChainHost(Protocol):
    """Sites with an engine and a broker each; every call returns when it is done."""

    @property
    def sites(self) -> Sequence[str]:
        """The names of the sites."""
        ...

    def deploy(self, chain: Chain) -> None:
        """Make the streams of a chain and start its jobs."""
        ...

    def modify(self, chain: Chain, jobs: Sequence[int]) -> None:
        """Give some jobs of a chain that is deployed another text; the others run on."""
        ...

    def delete(self, chain: Chain) -> None:
        """Stop the jobs of a chain and remove its streams."""
        ...

    def through(self, chain: Chain) -> None:
        """Send a record into a chain, and return when it left it."""
        ...


@dataclass(slots=True)
class ComposedHost:
    """Millrace itself; a base of one job at each site keeps brokers and engines up."""

    local: LocalSites
    composition: Composition
    _chains: dict[str, Chain] = field(default_factory=dict)
    _versions: dict[str, list[int]] = field(default_factory=dict)

    @property
    def sites(self) -> Sequence[str]:
        """The names of the sites."""
        return tuple(self.composition.sites)

    def begin(self) -> None:
        """Have a job at each site."""
        say = self.local.around.say
        say(f"starting {len(self.sites)} sites")
        began = time.monotonic()
        self._chains = {chain.name: chain for chain in one_at_each(self.sites)}
        self._apply()
        say(f"{len(self.sites)} sites are up after {time.monotonic() - began:.0f} s")

    def deploy(self, chain: Chain) -> None:
        """Apply the file with the chain; see the port."""
        self._chains[chain.name] = chain
        self._apply()

    def modify(self, chain: Chain, jobs: Sequence[int]) -> None:
        """Apply the file with other texts; see the port."""
        versions = self._versions.setdefault(chain.name, [0] * len(chain.sites))
        for job in jobs:
            versions[job] += 1
        self._apply()

    def delete(self, chain: Chain) -> None:
        """Apply the file without the chain; see the port."""
        del self._chains[chain.name]
        self._versions.pop(chain.name, None)
        self._apply()

    def through(self, chain: Chain) -> None:
        """Send a record from head to tail; see the port."""
        file = loaded(self._document())
        tail = self._log(file, chain.tail)
        before = tail.ends(chain.tail)  # a log of MQTT holds what comes after the first question
        self._log(file, chain.head).write(chain.head, [Record(b"x" * 100)])
        self.local.around.until(
            lambda: tail.ends(chain.tail) != before,
            THROUGH_SECONDS,
            f"no record came through {chain.name}",
        )

    def _log(self, file: Pipeline, stream: str) -> Log:
        """The log of a stream; the coordinator tells where brokers are that it has started."""
        site = file.sites[file.streams[stream].site or ""]
        if site.broker is None or site.broker.managed:
            return self.local.log(file, stream)
        folders = self.local.folders
        return broker_of(site, folders.state, folders.cache).log

    def _apply(self) -> None:
        self.local.apply(self._document())

    def _document(self) -> Mapping[str, object]:
        return self.composition.document(PIPELINE, self._chains.values(), self._versions)


def site_count(cell: Cell, memory: int) -> int:
    """Return how many sites a cell asks for; `auto` is six, and fewer Flinks in little memory."""
    if cell["sites"] != AUTO:
        return int(number(cell, "sites", 1))
    return FEW_SITES if cell["engine"] == "flink" and memory < MUCH_MEMORY else SITES


def sites_of(cell: Cell) -> list[str]:
    """Return the names of a cell's sites on this machine."""
    return site_names(site_count(cell, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))


@contextmanager
def spark_host(cell: Cell, around: Around) -> Iterator[ChainHost]:
    """Have sites with a Kafka and a Spark each for the time of a block."""
    with local_sites(around) as local:
        host = ComposedHost(local, on_spark(sites_of(cell)))
        host.begin()
        yield host


@contextmanager
def flink_host(cell: Cell, around: Around) -> Iterator[ChainHost]:
    """Have sites with a Mosquitto and a Flink each for the time of a block."""
    from millrace.experiment.speck.flink import on_flink  # noqa: PLC0415 - it needs a client of MQTT

    with on_flink(sites_of(cell), around) as (local, composition):
        host = ComposedHost(local, composition)
        host.begin()
        yield host


#: By the values of the factor `engine`.
HOSTS: Final[Mapping[str, Callable[[Cell, Around], AbstractContextManager[ChainHost]]]] = {
    "spark": spark_host,
    "flink": flink_host,
}
