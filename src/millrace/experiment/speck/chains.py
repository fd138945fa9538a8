"""Chains of jobs that pass records on, over several sites."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Chain:
    """Jobs that pass records on, one after another, each at a site."""

    name: str
    sites: tuple[str, ...]

    @property
    def head(self) -> str:
        """The first stream."""
        return self.stream(0)

    @property
    def tail(self) -> str:
        """The last stream."""
        return self.stream(len(self.sites))

    def job(self, number: int) -> str:
        """Return the name of a job."""
        return f"{self.name}_j{number}"

    def stream(self, number: int) -> str:
        """Return the name of the stream that a job reads."""
        return f"{self.name}_t{number}"

    def place(self, number: int) -> str:
        """Return where a stream is: where its writer is, the first where its reader is."""
        return self.sites[max(number - 1, 0)]

    def streams(self) -> dict[str, Any]:
        """Return its streams."""
        return {
            self.stream(number): {"site": self.place(number), "partitions": 1, "format": "raw"}
            for number in range(len(self.sites) + 1)
        }

    def jobs(self, does: Does, versions: Sequence[int] = ()) -> dict[str, Any]:
        """Return its jobs; one of another version has another text, and does the same."""
        return {
            self.job(number): {
                "site": site,
                "from": self.stream(number),
                "to": self.stream(number + 1),
                "checkpoint": "60 s",
                **does(self, number, versions[number] if versions else 0),
            }
            for number, site in enumerate(self.sites)
        }


#: What a job of a chain does, by its number and its version.
Does = Callable[[Chain, int, int], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Composition:
    """How chains are written for an engine: sites as they are declared, and what a job does."""

    sites: Mapping[str, Mapping[str, Any]]
    does: Does

    def document(
        self,
        pipeline: str,
        chains: Iterable[Chain],
        versions: Mapping[str, Sequence[int]] | None = None,
    ) -> dict[str, Any]:
        """Return the native document of chains; `versions` are those of their jobs, by chain."""
        found: dict[str, Any] = {"pipeline": pipeline, "sites": self.sites}
        found |= {"streams": {}, "jobs": {}}
        for chain in chains:
            found["streams"] |= chain.streams()
            found["jobs"] |= chain.jobs(self.does, (versions or {}).get(chain.name, ()))
        return found


def on_spark(sites: Iterable[str]) -> Composition:
    """Return chains of SQL with a Kafka at each site."""
    return Composition({site: {"broker": {"kind": "kafka"}} for site in sites}, _sql)


def _sql(chain: Chain, number: int, version: int) -> dict[str, Any]:
    where = f" WHERE {version} = {version}" if version else ""
    return {"sql": f"SELECT * FROM {chain.stream(number)}{where}"}  # noqa: S608 - names of our own


def site_names(count: int) -> list[str]:
    """Return the names of so many sites."""
    return [f"s{number}" for number in range(count)]


def drawn(name: str, jobs: int, sites: Sequence[str], chance: random.Random) -> Chain:
    """Return a chain whose jobs are placed uniformly at random."""
    return Chain(name, tuple(chance.choice(sites) for _ in range(jobs)))


def one_at_each(sites: Iterable[str]) -> list[Chain]:
    """Return a chain of one job for each site: with these all brokers and drivers are up."""
    return [Chain(f"base_{site}", (site,)) for site in sites]
