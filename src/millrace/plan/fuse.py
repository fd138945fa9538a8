"""Which jobs become one query: neighbours whose stream between them need not be stored."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    letters = {stream.dead_letters for stream in pipeline.streams.values()}
    writers, readers = pipeline.writers(), pipeline.readers()
    order = {job.name: place for place, job in enumerate(in_order(pipeline))}
    query = {name: name for name in order}
    inside: set[str] = set()
    stored: dict[str, str] = {}
    for name, stream in pipeline.streams.items():
        if not stream.transient:
            continue
        around = [*writers[name], *readers[name]]
        joined = _joined(query, order, [job.name for job in around])
        if name in letters:
            stored[name] = "it holds dead letters"
        elif (reason := _against(writers[name], readers[name])) is not None:
            stored[name] = reason
        elif _circular(pipeline, joined):
            stored[name] = "its jobs are also joined through others, outside of a query"
        else:
            inside.add(name)
            query = joined
    members: dict[str, list[str]] = {}
    for name in order:
        members.setdefault(query[name], []).append(name)
    groups = (tuple(names) for names in members.values() if len(names) > 1)
    return Fusion(tuple(groups), frozenset(inside), stored)


def _joined(
    query: Mapping[str, str], order: Mapping[str, int], names: Sequence[str]
) -> dict[str, str]:
    """Return the query of each job when those of some jobs become one; named by its first job."""
    old = {query[name] for name in names}
    first = min(old, key=lambda name: order[name], default="")
    return {name: first if at in old else at for name, at in query.items()}


def _against(writers: Sequence[Job], readers: Sequence[Job]) -> str | None:
    """Return what keeps the jobs around a stream apart, if anything does."""
    if len(writers) != 1 or not readers:
        return "no job here reads it" if writers else "no job here writes it"
    (writer,) = writers
    for job in (writer, *readers):
        if job.kind not in KINDS:
            return f"{job.name} is a {job.kind} job"
        if job.fuse is Fuse.NEVER:
            return f"{job.name} says fuse: never"
        if job.isolation is Isolation.DEDICATED:
            return f"{job.name} has a driver of its own"
    if writer.window is not None:
        return f"{writer.name} keeps state, and what comes after it is a query of its own"
    for job in readers:
        for what in ALIKE:
            one, other = getattr(writer, what), getattr(job, what)
            if one != other:
                return f"{writer.name} and {job.name} differ in {what}"
    return None


def _circular(pipeline: Pipeline, query: Mapping[str, str]) -> bool:
    """Whether some query would have to come both before and after another one."""
    above: dict[str, set[str]] = {name: set() for name in query.values()}
    writers = pipeline.writers()
    for job in pipeline.jobs.values():
        for stream in job.reads:
            above[query[job.name]] |= {query[writer.name] for writer in writers[stream]}
    graph = {name: names - {name} for name, names in above.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError:
        return True
    return False
