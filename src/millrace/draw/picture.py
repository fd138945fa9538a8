"""What a picture of a pipeline shows: boxes for sites, nodes for jobs and streams, arrows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.site import Site
from millrace.model.step import Action, Kind, Plan
from millrace.model.stream import Stream


@dataclass(frozen=True, slots=True)
class Box:
    """A site."""

    name: str
    note: str


@dataclass(frozen=True, slots=True)
class Dot:
    """A job or a stream in its site's box; `mark` is what a plan does to it."""

    id: str
    kind: Kind
    name: str
    note: str
    box: str
    mark: Action | None = None
    #: Whether it is a stream inside a query, on no broker.
    inside: bool = False


@dataclass(frozen=True, slots=True)
class Arrow:
    """Data flows from one node to another."""

    source: str
    target: str
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is shown, in a fixed order."""

    title: str
    note: str
    boxes: tuple[Box, ...]
    dots: tuple[Dot, ...]
    arrows: tuple[Arrow, ...]
    planned: bool = False


def picture(
    pipeline: Pipeline,
    old: Pipeline | None = None,
    plan: Plan | None = None,
    queries: Sequence[Sequence[str]] = (),
    inside: Collection[str] = (),
) -> Picture:
    """Return what there is to see; with a plan also what it removes, and what it does to what.

    `queries` are the jobs that are one query each, `inside` the streams inside of them.
    """
    marks = _marks(plan)
    sites = dict(pipeline.sites)
    query = {job: names[0] for names in queries for job in names}
    dots = [
        _stream(stream, marks.get((Kind.STREAM, stream.name)), inside=stream.name in inside)
        for stream in pipeline.streams.values()
    ]
    for name, job in pipeline.jobs.items():
        mark = marks.get((Kind.JOB, query.get(name, name)))
        dots.append(_job(job, mark, query.get(name)))
    arrows = _arrows(pipeline, gone=False)
    if old is not None and plan is not None:
        sites = {**old.sites, **sites}
        known = {dot.id for dot in dots}
        removed = [
            *(_stream(stream, Action.DELETE) for stream in old.streams.values()),
            *(_job(job, Action.DELETE) for job in old.jobs.values()),
        ]
        dots += [dot for dot in removed if dot.id not in known]
        drawn = {(arrow.source, arrow.target) for arrow in arrows}
        arrows += [
            arrow for arrow in _arrows(old, gone=True) if (arrow.source, arrow.target) not in drawn
        ]
    used = {dot.box for dot in dots}
    return Picture(
        pipeline.name,
        f"{len(pipeline.jobs)} jobs, {len(pipeline.streams)} streams, {len(pipeline.sites)} sites",
        tuple(_box(site) for name, site in sites.items() if name in used),
        tuple(dots),
        tuple(arrows),
        plan is not None,
    )


def _marks(plan: Plan | None) -> dict[tuple[Kind, str], Action]:
    """What a plan does to things that are there afterwards; a moved stream counts as moved."""
    actions: dict[tuple[Kind, str], set[Action]] = {}
    for step in plan.steps if plan is not None else ():
        actions.setdefault((step.kind, step.name), set()).add(step.action)
    marks = {}
    for thing, found in actions.items():
        if {Action.CREATE, Action.DELETE} <= found:
            marks[thing] = Action.MOVE
            continue
        for action in (Action.CREATE, Action.MOVE, Action.CHANGE, Action.START):
            if action in found:
                marks[thing] = action
                break
    return marks


def _arrows(pipeline: Pipeline, *, gone: bool) -> list[Arrow]:
    arrows = []
    for job in pipeline.jobs.values():
        arrows += [
            Arrow(f"stream {name}", f"job {job.name}", gone) for name in dict.fromkeys(job.reads)
        ]
        arrows += [
            Arrow(f"job {job.name}", f"stream {name}", gone) for name in dict.fromkeys(job.writes)
        ]
    return arrows


def _box(site: Site) -> Box:
    kinds = [engine.kind for engine in site.engines]
    if site.broker is not None:
        kinds.append(site.broker.kind)
    return Box(site.name, " · ".join(kinds))


def _stream(stream: Stream, mark: Action | None, *, inside: bool = False) -> Dot:
    parts = f" · {stream.partitions} partitions" if stream.partitions > 1 else ""
    note = "inside a query" if inside else f"{stream.transport or 'stream'}{parts}"
    return Dot(
        f"stream {stream.name}", Kind.STREAM, stream.name, note, stream.site or "", mark, inside
    )


def _job(job: Job, mark: Action | None, query: str | None = None) -> Dot:
    note = job.kind
    if query is not None:
        note += f" · query {query}"
    if job.window is not None:
        note += f" · {job.window.shape} window"
    if job.replicas > 1:
        note += f" · x{job.replicas}"
    return Dot(f"job {job.name}", Kind.JOB, job.name, note, job.site or "", mark)
