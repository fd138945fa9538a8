"""Which jobs become one query: neighbours whose stream between them need not be stored."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from millrace.model.graph import in_order
from millrace.model.job import Fuse, Isolation, Job
from millrace.model.pipeline import Pipeline

#: Kinds of code that can be put together.
KINDS: Final = frozenset({"sql", "python", "map"})
#: A query has one of each of these.
ALIKE: Final = (
    "site", "group", "engine", "mode", "interval", "every", "emit", "checkpoint", "promise",
    "order", "replicas", "end", "overload", "options",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fusion:
    """Jobs that become one query each, and what stays between them."""

    #: Each of two jobs or more, in the direction of the data; the first names the query.
    groups: tuple[tuple[str, ...], ...] = ()
    #: Transient streams that are inside a query, and so on no broker.
    inside: frozenset[str] = frozenset()
    #: Transient streams that are stored all the same, and why.
    stored: Mapping[str, str] = field(default_factory=dict)

    def group(self, job: str) -> tuple[str, ...]:
        """Return the jobs of a job's query, itself among them."""
        return next((names for names in self.groups if job in names), (job,))


def fusion(pipeline: Pipeline) -> Fusion:
    """Return which jobs become one query; the same pipeline always gives the same."""
    transient = [name for name, stream in pipeline.streams.items() if stream.transient]
    if not transient:
        return Fusion()
    letters = {stream.dead_letters for stream in pipeline.streams.values()}
    writers, readers = pipeline.writers(), pipeline.readers()
    stored: dict[str, str] = {}
    for name in transient:
        reason = "it holds dead letters" if name in letters else None
        if reason := reason or _against(writers[name], readers[name]):
            stored[name] = reason
    order = [job.name for job in in_order(pipeline)]
    inside = [name for name in transient if name not in stored]
    if _tangled(pipeline, _queries(pipeline, order, inside), inside) is not None:
        wanted, inside = inside, []
        for name in wanted:  # rare: one after another, as many as can be
            queries = _queries(pipeline, order, [*inside, name])
            if (reason := _tangled(pipeline, queries, [*inside, name])) is not None:
                stored[name] = reason
            else:
                inside.append(name)
    members: dict[str, list[str]] = {}
    for name, query in _queries(pipeline, order, inside).items():
        members.setdefault(query, []).append(name)
    groups = (tuple(names) for names in members.values() if len(names) > 1)
    return Fusion(tuple(groups), frozenset(inside), stored)


def _queries(pipeline: Pipeline, order: Sequence[str], inside: Sequence[str]) -> dict[str, str]:
    """Return the query of each job, in their order; a query is named by its first job."""
    place = {name: at for at, name in enumerate(order)}
    above = {name: name for name in order}

    def first(name: str) -> str:
        while above[name] != name:
            above[name] = above[above[name]]
            name = above[name]
        return name

    around: dict[str, list[str]] = {name: [] for name in inside}
    for job in pipeline.jobs.values():
        for stream in (*job.reads, *job.writes):
            if stream in around:
                around[stream].append(job.name)
    for names in around.values():
        roots = sorted({first(name) for name in names}, key=place.__getitem__)
        above |= dict.fromkeys(roots, roots[0])
    return {name: first(name) for name in order}


def _against(writers: Sequence[Job], readers: Sequence[Job]) -> str | None:
    """Return what keeps the jobs around a stream apart, if anything does."""
    if len(writers) != 1 or not readers:
        return "no job here reads it" if writers else "no job here writes it"
    (writer,) = writers
    apart = (reason for job in (writer, *readers) if (reason := _alone(job)))
    if (found := next(apart, None)) is not None:
        return found
    if writer.remembers:
        return f"{writer.name} keeps state, and what comes after it is a query of its own"
    for job in readers:
        if any(port.table and port.stream in writer.writes for port in job.inputs):
            return f"{job.name} reads it as a table"
        for what in ALIKE:
            one, other = getattr(writer, what), getattr(job, what)
            if one != other:
                return f"{writer.name} and {job.name} differ in {what}"
    return None


def _alone(job: Job) -> str | None:
    """Return why a job is a query of its own, if it is."""
    reasons = {
        f"{job.name} is a {job.kind} job": job.kind not in KINDS,
        f"{job.name} has windows of Millrace's own": job.exact,
        f"{job.name} goes by the clock": job.every is not None,
        f"{job.name} says fuse: never": job.fuse is Fuse.NEVER,
        f"{job.name} has replicas": job.replicas > 1,
        f"{job.name} has a driver of its own": job.isolation is Isolation.DEDICATED,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _tangled(pipeline: Pipeline, query: Mapping[str, str], inside: Sequence[str]) -> str | None:
    """Return why these can't be queries, if they can't; each must come before or after another."""
    above: dict[str, set[str]] = {name: set() for name in query.values()}
    members: dict[str, list[Job]] = {name: [] for name in query.values()}
    writers, hidden = pipeline.writers(), frozenset(inside)
    for job in pipeline.jobs.values():
        at = query[job.name]
        members[at].append(job)
        outside = {*job.reads} - hidden
        above[at] |= {query[w.name] for stream in outside for w in writers[stream]}
    try:
        graphlib.TopologicalSorter(above).prepare()
    except graphlib.CycleError:
        return "its jobs are also joined through others, outside of a query"
    several = (jobs for jobs in members.values() if len(jobs) > 1)
    return next((reason for jobs in several if (reason := _shapeless(jobs, hidden))), None)


def _shapeless(jobs: Sequence[Job], inside: frozenset[str]) -> str | None:
    """Return why jobs can't be one query by its shape: it is a chain, or a tree over one input."""
    reads = [(stream, job) for job in jobs for stream in job.reads]
    writes = [(stream, job) for job in jobs for stream in job.writes]
    for verb, ports in (("read", reads), ("write", writes)):
        seen: dict[str, Job] = {}
        for stream, job in ports:
            if stream not in inside and seen.setdefault(stream, job) is not job:
                return f"{seen[stream].name} and {job.name} both {verb} {stream}"
    inner = [stream for stream, _ in reads if stream in inside]
    chain = len(inner) == len(set(inner)) and len(writes) == len(jobs)
    for job in jobs:
        if not chain and (job.map is not None or job.remembers):
            what = "is a map job" if job.map is not None else "keeps state"
            return f"{job.name} {what}, and its query would be no chain"
    maps = [job.name for job in jobs if job.map is not None]
    states = [job.name for job in jobs if job.remembers]
    if maps and states:
        return f"{states[0]} keeps state, and dead letters of {maps[0]} would be lost in it"
    inputs = [stream for stream, _ in reads if stream not in inside]
    if not chain and len(inputs) > 1:
        return f"a query with several outputs has one input, not {', '.join(inputs)}"
    return None


def as_queries(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with each query as one job, and without the streams inside of them."""
    found = fusion(pipeline)
    streams = {n: stream for n, stream in pipeline.streams.items() if n not in found.inside}
    jobs = {}
    for name, job in pipeline.jobs.items():
        group = found.group(name)
        if len(group) == 1:
            jobs[name] = job
        elif name == group[0]:
            jobs[name] = _query([pipeline.jobs[member] for member in group], found.inside)
    return replace(pipeline, streams=streams, jobs=jobs)


def _query(members: Sequence[Job], inside: frozenset[str]) -> Job:
    inputs = [port for job in members for port in job.inputs if port.stream not in inside]
    outputs = [port for job in members for port in job.outputs if port.stream not in inside]
    return replace(members[0], inputs=tuple(inputs), outputs=tuple(outputs), members=tuple(members))
