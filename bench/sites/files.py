"""The files of the benchmark: chains of jobs that pass records on, over several sites."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

NAME = "bench"


@dataclass(frozen=True, slots=True)
class Chain:
    """Jobs that pass records on, one after another, each at a site."""

    name: str
    sites: tuple[str, ...]

    @property
    def head(self) -> tuple[str, str]:
        """The first stream and its site."""
        return self.stream(0), self.sites[0]

    @property
    def tail(self) -> tuple[str, str]:
        """The last stream and its site."""
        return self.stream(len(self.sites)), self.sites[-1]

    def job(self, number: int) -> str:
        """Return the name of a job."""
        return f"{self.name}_j{number}"

    def stream(self, number: int) -> str:
        """Return the name of the stream that a job reads."""
        return f"{self.name}_t{number}"

    def streams(self) -> dict[str, Any]:
        """Return its streams: each where its writer is, the first where its reader is."""
        places = (self.sites[0], *self.sites)
        return {
            self.stream(number): {"site": site, "partitions": 1, "format": "raw"}
            for number, site in enumerate(places)
        }

    def jobs(self, versions: Sequence[int] | None = None) -> dict[str, Any]:
        """Return its jobs; one of another version has another text, and does the same."""
        return {
            self.job(number): {
                "site": site,
                "from": self.stream(number),
                "to": self.stream(number + 1),
                "checkpoint": "60 s",
                "sql": _sql(self.stream(number), versions[number] if versions else 0),
            }
            for number, site in enumerate(self.sites)
        }


def _sql(stream: str, version: int) -> str:
    return f"SELECT * FROM {stream}" + (f" WHERE {version} = {version}" if version else "")


def site_names(count: int) -> list[str]:
    """Return the names of so many sites."""
    return [f"s{number}" for number in range(count)]


def drawn(name: str, jobs: int, sites: Sequence[str], chance: random.Random) -> Chain:
    """Return a chain whose jobs are placed uniformly at random."""
    return Chain(name, tuple(chance.choice(sites) for _ in range(jobs)))


def one_at_each(sites: Iterable[str]) -> list[Chain]:
    """Return a chain of one job for each site: with these all brokers and drivers are up."""
    return [Chain(f"base_{site}", (site,)) for site in sites]


def document(
    sites: Iterable[str],
    chains: Iterable[Chain],
    versions: dict[str, Sequence[int]] | None = None,
) -> dict[str, Any]:
    """Return the native document of chains; `versions` are those of their jobs, by chain."""
    found: dict[str, Any] = {
        "pipeline": NAME,
        "sites": {site: {"broker": {"kind": "kafka"}} for site in sites},
        "streams": {},
        "jobs": {},
    }
    for chain in chains:
        found["streams"] |= chain.streams()
        found["jobs"] |= chain.jobs((versions or {}).get(chain.name))
    return found


def many(jobs: int, sites: int, seed: int, *, changed: int = 0, length: int = 10) -> dict[str, Any]:
    """Return the document of so many jobs in chains of some length; some may be changed."""
    names, chance = site_names(sites), random.Random(seed)  # noqa: S311 - places, no secrets
    lengths = [length] * (jobs // length) + ([jobs % length] if jobs % length else [])
    chains = [drawn(f"c{n}", count, names, chance) for n, count in enumerate(lengths)]
    every = [(chain.name, number) for chain in chains for number in range(len(chain.sites))]
    other = set(chance.sample(every, changed))
    versions: dict[str, Sequence[int]] = {
        chain.name: [int((chain.name, number) in other) for number in range(len(chain.sites))]
        for chain in chains
    }
    return document(names, chains, versions)
