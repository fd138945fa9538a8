"""What a step of a plan does, phase by phase: what it orders, and when that is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from millrace.coordinator.deployment import Deployment, Placed
from millrace.coordinator.files import Files
from millrace.model.impact import Impact
from millrace.model.job import Job, Mode
from millrace.model.places import Key
from millrace.model.step import Action, Kind, Step
from millrace.ports import JobState
from millrace.ports.link import JobGoal, PipelineReport, Positions, Thing

#: Between a stream's name and the number of its file, where two have one name (see `observe`).
PART = "~"
#: What each site last told of the pipeline; a site that told nothing yet is not there.
Reports = Mapping[str, PipelineReport]


class Phase(StrEnum):
    """One order, which is done when the site says so."""

    SERVE = "serve"
    ENSURE = "ensure"
    STOP = "stop"
    START = "start"
    FORGET = "forget"
    DROP = "drop"
    END = "end"


_JOB = {
    Action.CREATE: (Phase.START,),
    Action.START: (Phase.START,),
    Action.CHANGE: (Phase.STOP, Phase.START),
    Action.MOVE: (Phase.STOP, Phase.START),
    Action.STOP: (Phase.STOP,),
    Action.DELETE: (Phase.STOP, Phase.FORGET),
}
_OTHERS = {
    Kind.STREAM: ((Phase.ENSURE,), (Phase.DROP,)),
    Kind.BROKER: ((Phase.SERVE,), (Phase.END,)),
}


def phases_of(step: Step) -> tuple[Phase, ...]:
    """Return the phases of a step, in their order."""
    if step.kind is Kind.JOB:
        return _JOB[step.action]
    if step.kind not in _OTHERS:
        return ()  # a pilot: nobody starts these yet
    if step.kind is Kind.STREAM and step.action is Action.CHANGE and step.impact is Impact.REPLACE:
        return Phase.DROP, Phase.ENSURE  # its log is made anew
    return _OTHERS[step.kind][step.action is Action.DELETE]


def made_anew(step: Step) -> bool:
    """Whether a step takes the records of a stream away and makes its log again."""
    return step.action is not Action.DELETE and Phase.DROP in phases_of(step)


def makes_log(step: Step) -> bool:
    """Whether a step makes a log, the first of its stream or another one."""
    return made_anew(step) or (step.kind is Kind.STREAM and step.action is Action.CREATE)


@dataclass(frozen=True, slots=True)
class Start:
    """Where and how a query starts: what the change of its pipeline decided."""

    site: str
    folder: int
    begins: Positions
    #: When what it begins at was committed, in milliseconds since the epoch.
    since: int | None = None
    brought: tuple[str, int] | None = None
    vouched: bool = False


def ordered(
    now: Deployment, step: Step, phase: Phase, files: Files, wanted: int, start: Start | None
) -> Deployment:
    """Return the deployment with a phase ordered; `start` is for those that start a query."""
    name, thing = step.name, (step.name, wanted)
    match phase:
        case Phase.SERVE:
            return replace(now, brokers=_without(now.brokers, name) | {thing})
        case Phase.END:
            return replace(now, brokers=_without(now.brokers, name))
        case Phase.ENSURE:
            every = now.streams | now.dropped
            same = frozenset(one for one in every if files.key(one) == files.key(thing))
            return replace(now, streams=now.streams - same | {thing}, dropped=now.dropped - same)
        case Phase.DROP:
            old = _leaving(now.streams, step, files, wanted)
            inside = _reading_on(now, old, files)
            return replace(now, streams=now.streams - old, dropped=now.dropped | old, inside=inside)
        case Phase.STOP:
            placed = now.jobs[name]
            drains = tuple(stream.partition(PART)[0] for stream in step.drains)
            drains = tuple(dict.fromkeys((*drains, *_committed_first(placed, name, files, wanted))))
            goal = replace(placed.goal, running=False, drains=drains)
            return now.with_job(name, replace(placed, goal=goal))
        case Phase.START if start is not None:
            goal = JobGoal(
                wanted,
                now.generation + 1,
                start.folder,
                begins=start.begins,
                since=start.since,
                brought=start.brought,
                vouched=start.vouched,
            )
            return now.with_job(name, Placed(start.site, goal))
        case _:
            gone = files.queries(now.jobs[name].goal.revision).jobs[name]
            # Its jobs may go on inside another query, or outside of this one.
            stays = any(one.name in files[wanted].jobs for one in gone.members or (gone,))
            return now.without_job(name, inside=stays)


def _committed_first(placed: Placed, query: str, files: Files, wanted: int) -> tuple[str, ...]:
    """The inputs that a query in real time commits before it writes elsewhere than it did.

    What it wrote since its last boundary is looked for where it writes then: in another stream, or
    among other partitions, it would not be found, and would be written again.
    """
    number = placed.goal.revision
    facts, after = files.facts(number).get(query), files.queries(wanted).jobs.get(query)
    if facts is None or facts.mode is not Mode.REAL_TIME or after is None:
        return ()
    before = files.queries(number).jobs[query]
    same = _sinks(before, number, files) == _sinks(after, wanted, files)
    return () if same else tuple(before.follows)


def _sinks(query: Job, number: int, files: Files) -> set[tuple[Key, int]]:
    """The streams that a query writes, dead letters included, with their partitions."""
    streams = files[number].streams
    letters = (streams[name].dead_letters for name in query.reads if name in streams)
    names = {*query.writes, *(name for name in letters if name is not None)}
    return {
        (files.key((name, number)), streams[name].partitions) for name in names if name in streams
    }


def _without(things: frozenset[Thing], name: str) -> frozenset[Thing]:
    return frozenset(thing for thing in things if thing[0] != name)


def _reading_on(now: Deployment, gone: frozenset[Thing], files: Files) -> dict[str, Placed]:
    """The jobs inside queries whose positions still mean something without some streams."""
    keys = {files.key(thing) for thing in gone}
    found = {}
    for name, placed in now.inside.items():
        number = placed.goal.revision
        follows = files.queries(number).jobs[name].follows
        if keys.isdisjoint(files.key((stream, number)) for stream in follows):
            found[name] = placed
    return found


def _named(things: frozenset[Thing], name: str) -> frozenset[Thing]:
    plain = name.partition(PART)[0]
    return frozenset(thing for thing in things if thing[0] == plain)


def _leaving(streams: frozenset[Thing], step: Step, files: Files, wanted: int) -> frozenset[Thing]:
    """The stream that a step removes: of its name, at its place, and not where it shall be."""
    name, parted, number = step.name.partition(PART)
    if parted:
        return streams & {(name, int(number))}
    if step.action is Action.CHANGE:
        key = files.key((name, wanted))
        return frozenset(thing for thing in streams if files.key(thing) == key)
    stays = files.key((step.name, wanted)) if step.name in files.queries(wanted).streams else None
    return frozenset(
        thing
        for thing in streams
        if thing[0] == step.name and files.site(thing) == step.place and files.key(thing) != stays
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a phase is: done, or not yet, or never by itself for a reason."""

    done: bool = False
    error: str = ""
    #: Whether trying again can help, so that it is waited for a while.
    transient: bool = True


#: What is done at a site that is lost: nothing of it is there any more.
_LOST = (Phase.STOP, Phase.DROP, Phase.END)


def outcome(
    now: Deployment,
    step: Step,
    phase: Phase,
    wanted: int,
    reports: Reports,
    lost: frozenset[str] = frozenset(),
) -> Outcome:
    """Return how a phase that was ordered is, by what its site says; `lost` sites say nothing."""
    if phase is Phase.FORGET:
        return Outcome(done=True)
    site = site_of(now, step)
    if site in lost and phase in _LOST:
        return Outcome(done=True)
    report = reports.get(site)
    if report is None:
        return Outcome(error=f"site {site} has not been heard of")
    if step.kind is Kind.JOB:
        return _job(now, step.name, report)
    done = {
        Phase.SERVE: report.broker is not None,
        Phase.END: report.broker is None,
        Phase.ENSURE: (step.name, wanted) in report.streams,
        Phase.DROP: not _named(now.dropped, step.name) - report.gone,
    }[phase]
    return Outcome(done, "" if done else report.errors.get(step.name, ""))


def _job(now: Deployment, name: str, report: PipelineReport) -> Outcome:
    goal, job = now.jobs[name].goal, report.jobs.get(name)
    if job is None or job.generation != goal.generation:
        return Outcome()
    if not goal.running:
        still = job.state in (JobState.STOPPED, JobState.ENDED) and not job.running
        return Outcome(still, job.error)
    if job.state in (JobState.RUNNING, JobState.ENDED):
        return Outcome(done=True)
    told = f"{job.error} ({job.hint})" if job.hint else job.error
    return Outcome(error=told, transient=job.state is not JobState.FAILED or job.transient)


def site_of(now: Deployment, step: Step) -> str:
    """Return the site that carries a step out."""
    if step.kind is Kind.JOB and step.name in now.jobs:
        return now.jobs[step.name].site
    return step.place


def finished(now: Deployment, step: Step, phase: Phase, reports: Reports) -> Deployment:
    """Return the deployment after a phase is done: what is gone is forgotten, positions kept."""
    if phase is Phase.DROP:
        return replace(now, dropped=now.dropped - _named(now.dropped, step.name))
    if phase is Phase.STOP:
        placed = now.jobs[step.name]
        report = reports.get(placed.site)
        job = report.jobs.get(step.name) if report is not None else None
        if job is not None and job.progress.positions:
            at = int(job.progress.at * 1000)
            placed = replace(placed, reached=job.progress.positions, at=at)
        return now.with_job(step.name, placed)
    return now
