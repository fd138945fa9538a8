"""Random changes of a running chain over three sites: each is a new version of one file."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from millrace.model.pipeline import Pipeline
from millrace.spec import load_text

SITES = ("west", "east", "cloud")
SCHEMA = "{run: string, writer: int, seq: long, key: string, sent: long, pad: string, crc: long}"
MOST_PARTITIONS = 4


@dataclass(frozen=True)
class Hop:
    """A job that passes records on, and the stream that it writes."""

    job: str
    site: str
    stream: str
    at: str
    partitions: int = 2
    version: int = 0
    mode: str = "micro-batch"


@dataclass(frozen=True)
class Chain:
    """Jobs one behind another: from `in` at the first site to `out` at the last."""

    name: str
    hops: tuple[Hop, ...]
    serial: int = 0

    @classmethod
    def drawn(cls, name: str, count: int, chance: random.Random) -> Chain:
        """Return a chain with jobs and streams anywhere; a third of the jobs is in real time."""
        hops = []
        for number in range(count):
            last = number == count - 1
            hops.append(
                Hop(
                    f"j{number}",
                    chance.choice(SITES),
                    "out" if last else f"s{number}",
                    SITES[-1] if last else chance.choice(SITES),
                    mode=chance.choice(("micro-batch", "micro-batch", "real-time")),
                )
            )
        return cls(name, tuple(hops), count)

    def pipeline(self) -> Pipeline:
        """Return it as a file says it."""
        sites = ", ".join(f"{site}: {{broker: kafka}}" for site in SITES)
        lines = [f"pipeline: {self.name}", f"sites: {{{sites}}}"]
        lines += ["defaults:", f"  streams: {{key: key, schema: {SCHEMA}}}", "streams:"]
        lines += [f"  in: {{site: {SITES[0]}, partitions: 2}}"]
        lines += [f"  {h.stream}: {{site: {h.at}, partitions: {h.partitions}}}" for h in self.hops]
        lines.append("jobs:")
        source = "in"
        for hop in self.hops:
            sql = f"SELECT * FROM `{source}` WHERE seq > {-1 - hop.version}"  # noqa: S608
            lines.append(
                f'  {hop.job}: {{site: {hop.site}, from: {source}, to: {hop.stream}, sql: "{sql}", '
                f"mode: {hop.mode}, checkpoint: 5 s}}"
            )
            source = hop.stream
        return load_text("\n".join(lines), self.name).required()

    def with_hop(self, number: int, hop: Hop) -> Chain:
        """Return it with another hop at a place."""
        return replace(self, hops=(*self.hops[:number], hop, *self.hops[number + 1 :]))


@dataclass(frozen=True)
class Changed:
    """One change: what it is called, and the jobs that it may touch."""

    what: str
    chain: Chain
    touched: frozenset[str] = field(default_factory=frozenset)


def moved(chain: Chain, chance: random.Random) -> Changed:
    """A job goes to another site."""
    number = chance.randrange(len(chain.hops))
    hop = chain.hops[number]
    site = chance.choice([site for site in SITES if site != hop.site])
    after = chain.with_hop(number, replace(hop, site=site))
    return Changed(f"move {hop.job} from {hop.site} to {site}", after, frozenset({hop.job}))


def versioned(chain: Chain, chance: random.Random) -> Changed:
    """A job gets other code."""
    number = chance.randrange(len(chain.hops))
    hop = chain.hops[number]
    after = chain.with_hop(number, replace(hop, version=hop.version + 1))
    return Changed(f"new version of {hop.job}", after, frozenset({hop.job}))


def inserted(chain: Chain, chance: random.Random) -> Changed:
    """A job comes between two others: the first one is redirected."""
    number = chance.randrange(len(chain.hops))
    hop, serial = chain.hops[number], chain.serial
    before = replace(hop, stream=f"s{serial}", at=chance.choice(SITES), partitions=2)
    new = Hop(f"j{serial}", chance.choice(SITES), hop.stream, hop.at, hop.partitions)
    hops = (*chain.hops[:number], before, new, *chain.hops[number + 1 :])
    after = replace(chain, hops=hops, serial=serial + 1)
    return Changed(f"insert {new.job} behind {hop.job}", after, frozenset({hop.job, new.job}))


def removed(chain: Chain, chance: random.Random) -> Changed:
    """A job goes: the one before it writes where it wrote."""
    number = chance.randrange(1, len(chain.hops))
    gone, hop = chain.hops[number], chain.hops[number - 1]
    merged = replace(hop, stream=gone.stream, at=gone.at, partitions=gone.partitions)
    hops = (*chain.hops[: number - 1], merged, *chain.hops[number + 1 :])
    touched = frozenset({hop.job, gone.job})
    return Changed(f"remove {gone.job}", replace(chain, hops=hops), touched)


def slipped_in(chain: Chain, chance: random.Random) -> Changed:
    """A job comes between two others: it takes the place of the second one, which reads it."""
    number = chance.randrange(len(chain.hops) - 1)
    hop, reader, serial = chain.hops[number], chain.hops[number + 1], chain.serial
    new = Hop(f"j{serial}", chance.choice(SITES), f"s{serial}", chance.choice(SITES), 2)
    hops = (*chain.hops[: number + 1], new, *chain.hops[number + 1 :])
    after = replace(chain, hops=hops, serial=serial + 1)
    what = f"slip {new.job} in between {hop.job} and {reader.job}"
    return Changed(what, after, frozenset({new.job, reader.job}))


def taken_out(chain: Chain, chance: random.Random) -> Changed:
    """A job goes: the one behind it reads what it read."""
    number = chance.randrange(len(chain.hops) - 1)
    gone, reader = chain.hops[number], chain.hops[number + 1]
    hops = (*chain.hops[:number], *chain.hops[number + 1 :])
    touched = frozenset({gone.job, reader.job})
    return Changed(f"take {gone.job} out", replace(chain, hops=hops), touched)


def redirected(chain: Chain, chance: random.Random) -> Changed:
    """A stream between two jobs goes to another site's broker."""
    number = chance.randrange(len(chain.hops) - 1)
    hop, reader = chain.hops[number], chain.hops[number + 1]
    at = chance.choice([site for site in SITES if site != hop.at])
    after = chain.with_hop(number, replace(hop, at=at))
    return Changed(f"stream {hop.stream} to {at}", after, frozenset({hop.job, reader.job}))


def grown(chain: Chain, chance: random.Random) -> Changed:
    """A stream between two jobs gets more partitions; where none may, a job gets other code."""
    small = [n for n, hop in enumerate(chain.hops[:-1]) if hop.partitions < MOST_PARTITIONS]
    if not small:
        return versioned(chain, chance)
    number = chance.choice(small)
    hop, reader = chain.hops[number], chain.hops[number + 1]
    after = chain.with_hop(number, replace(hop, partitions=hop.partitions + 1))
    touched = frozenset({hop.job, reader.job})
    return Changed(f"{hop.partitions + 1} partitions of {hop.stream}", after, touched)


KINDS = (moved, versioned, inserted, removed, slipped_in, taken_out, redirected, grown)


def script(chain: Chain, chance: random.Random, count: int) -> Iterator[Changed]:
    """Give so many changes one after another, each kind before one comes again."""
    kinds: list[object] = []
    for _ in range(count):
        kinds = kinds or chance.sample(KINDS, len(KINDS))
        change = kinds.pop()(chain, chance)  # type: ignore[operator]
        chain = change.chain
        yield change
