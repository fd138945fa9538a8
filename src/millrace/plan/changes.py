"""What is different between two worlds: for each thing, the action and the reasons."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from millrace.model.impact import Impact
from millrace.model.job import Job, Mode
from millrace.model.places import World
from millrace.model.site import EngineKind
from millrace.model.status import Facts, JobFacts
from millrace.model.step import Action, Reason
from millrace.model.stream import Stream
from millrace.plan.diff import changed, differences

#: Fields of a stream that its key holds, and its group, whose values it has taken already.
STREAM_PLACE = frozenset({"site", "transport", "topic", "group"})
#: Fields of a site that programs on it do not see.
NO_PROCESS = frozenset({"description", "host", "pilot", "engines", "broker"})
#: What a reason is about that is a job's coming into a query or leaving it.
_MEMBERS = "members"
#: Fields of a job that are compared by place, not by name.
JOB_PLACE = frozenset({"site", "inputs", "outputs"})


@dataclass(frozen=True, slots=True)
class JobChange:
    """What happens to a job that both worlds have."""

    action: Action
    reasons: tuple[Reason, ...]
    impact: Impact


def stateful(job: Job, facts: Facts) -> bool | None:
    """Whether a job holds state, as far as its file or its engine says; None is unknown."""
    if any(one.window is not None or one.state is not None for one in (job, *job.members)):
        return True
    if all(one.map is not None for one in (job, *job.members)):
        return False
    return facts.get(job.name, JobFacts()).stateful


def state_keepers(job: Job) -> frozenset[str]:
    """Return the jobs of a query of which the file says that they keep state."""
    jobs = job.members or (job,)
    return frozenset(one.name for one in jobs if one.remembers or one.keeps_state)


def same_inputs(old: Job, new: Job, before: World, after: World) -> bool:
    """Whether a job's positions still mean what they did: all that it follows is at its place."""
    followed = [before.stream_key(name) for name in old.follows]
    if followed != [after.stream_key(name) for name in new.follows]:
        return False
    if (old.every is None) != (new.every is None):
        return False
    if old.read is None or new.read is None:
        return old.read is new.read
    return all(reason.impact <= Impact.RESTART for reason in differences(old.read, new.read))


def job_change(old: Job, new: Job, before: World, after: World, facts: Facts) -> JobChange | None:
    """Compare a job with itself; None where nothing is different."""
    reasons = list(_members(old, new) if old.members or new.members else ())
    reasons += () if old.members and new.members else differences(old, new, JOB_PLACE)
    moved = before.engine_key(old) != after.engine_key(new)
    if moved:
        reasons.append(_moved(old, new))
    elif old.site != new.site:
        reasons.append(changed("site", old.site, new.site, Impact.IGNORE))
    reasons += _engine_settings(old, new, before, after)
    reasons += _broker_settings(new, before, after)
    reasons += _ports(old, new, before, after)
    reasons += _letters(old, new, before, after)
    if not reasons:
        return None
    reasons = [_weighed(reason, stateful(old, facts)) for reason in reasons]
    action = Action.MOVE if moved else Action.CHANGE
    return JobChange(action, tuple(reasons), max(reason.impact for reason in reasons))


def _members(old: Job, new: Job) -> Iterable[Reason]:
    """What is different among the jobs of a query; each is compared with itself by its name."""
    before = {job.name: job for job in old.members or (old,)}
    after = {job.name: job for job in new.members or (new,)}
    for name in {**before, **after}:
        one, other = before.get(name), after.get(name)
        if one is not None and other is not None:
            yield from differences(one, other, frozenset({"site"}), f"{name}: ")
            continue
        what = "fused with it" if one is None else "no longer fused with it"
        lost = any(state_keepers(job) for job in (one, other) if job is not None)
        impact = Impact.STATE_LOST if lost else Impact.RESTART
        yield Reason(f"{name} is {what}", impact, _MEMBERS)


def _moved(old: Job, new: Job) -> Reason:
    if old.site != new.site:
        return changed("site", old.site, new.site, Impact.RESTART)
    return Reason(f"the engine of site {new.site} is another one", Impact.RESTART, "site")


def _engine_settings(old: Job, new: Job, before: World, after: World) -> Iterable[Reason]:
    """Settings of the site's engine that its jobs only see when they start."""
    one = before.pipeline.sites.get(old.site or "")
    other = after.pipeline.sites.get(new.site or "")
    if one is None or other is None or old.needs is None or new.needs is None:
        return
    engines = one.engine(old.needs), other.engine(new.needs)
    if engines[0] is not None and engines[1] is not None:
        without = frozenset({"kind", "address", "master"})
        yield from differences(engines[0], engines[1], without, f"site {new.site}: engine.")
    if new.needs == EngineKind.PROCESS:
        yield from differences(one, other, NO_PROCESS, f"site {new.site}: ")


def _broker_settings(new: Job, before: World, after: World) -> Iterable[Reason]:
    """Settings of attached brokers, which only their clients know."""
    found: dict[str, Reason] = {}
    for name in (*new.reads, *new.writes):
        was, now = before.pipeline.streams.get(name), after.pipeline.streams[name]
        if was is None or before.stream_key(name) != after.stream_key(name):
            continue
        one = before.pipeline.sites.get(was.site or "")
        other = after.pipeline.sites.get(now.site or "")
        if one is None or other is None or one.broker is None or other.broker is None:
            continue
        if not other.broker.managed:
            for reason in differences(one.broker, other.broker, prefix=f"site {now.site}: broker."):
                found[reason.text] = reason
    return found.values()


def _ports(old: Job, new: Job, before: World, after: World) -> Iterable[Reason]:
    for key, impact, ports in (
        ("from", Impact.STATE_LOST, "inputs"),
        ("to", Impact.RESTART, "outputs"),
    ):
        one, other = getattr(old, ports), getattr(new, ports)
        places = [before.stream_key(port.stream) for port in one]
        others = [after.stream_key(port.stream) for port in other]
        if places != others and one != other:
            yield changed(key, one, other, impact)
        elif places != others:
            here = [port.stream for port, a, b in zip(other, places, others, strict=True) if a != b]
            yield Reason(f"{key}: {', '.join(here)} is at another place", impact, key)
        elif [port.stream for port in one] != [port.stream for port in other]:
            yield changed(key, one, other, Impact.RESTART)  # one stream, another name in the code
        else:
            for index, (a, b) in enumerate(zip(one, other, strict=True)):
                yield from differences(a, b, prefix=f"{key}[{index}].")


def _letters(old: Job, new: Job, before: World, after: World) -> Iterable[Reason]:
    """Where malformed records go; a stream that names another one is stopped for by itself."""
    one, other = before.letters(old), after.letters(new)
    moved = [name for key, name in other.items() if key not in one]
    if moved and [*one.values()] == [*other.values()]:
        text = f"dead letters: {', '.join(moved)} is at another place"
        yield Reason(text, Impact.RESTART, "dead_letters")


def _weighed(reason: Reason, has_state: bool | None) -> Reason:
    """A job without state can't lose it; one that has state loses it when it is replaced.

    What comes into a query or leaves it with state loses that, whatever the query had itself.
    """
    if reason.field == _MEMBERS:
        return reason
    if reason.impact is Impact.STATE_LOST and has_state is False:
        return replace(reason, impact=Impact.REPLACE)
    if reason.impact is Impact.REPLACE and has_state:
        return replace(reason, impact=Impact.STATE_LOST)
    return reason


def stream_reasons(old: Stream, new: Stream) -> tuple[Reason, ...]:
    """Compare a stream with itself at one place."""
    reasons = differences(old, new, STREAM_PLACE)
    if new.partitions >= old.partitions:
        return reasons
    return tuple(  # a log can't have fewer partitions: it is made anew
        replace(reason, impact=Impact.REPLACE) if reason.field == "partitions" else reason
        for reason in reasons
    )


def keeps(change: JobChange, *, inputs_stay: bool, has_state: bool | None) -> tuple[str, ...]:
    """Say what of a job survives a change."""
    offsets = ("offsets",) if inputs_stay else ()
    if change.impact <= Impact.RESTART:
        return ("checkpoint", *(("state",) if has_state is not False else ()), *offsets)
    return offsets


def same_order(stream: Stream, old: Stream) -> bool:
    """Whether records keep their partition."""
    return stream.partitions == old.partitions and stream.key == old.key


def mode_note(jobs: Iterable[str], facts: Facts) -> tuple[str, ...]:
    """Say for which jobs nobody has asked an engine yet."""
    unknown = [name for name in jobs if facts.get(name, JobFacts()).mode is None]
    if not unknown:
        return tuple(f"mode of {name}: {_mode(facts[name])}" for name in jobs)
    jobs_are = "1 job" if len(unknown) == 1 else f"{len(unknown)} jobs"
    return (f"mode: decided at start ({jobs_are}; no engine was asked)",)


def _mode(facts: JobFacts) -> str:
    mode = facts.mode or Mode.AUTO
    return f"{mode} ({'; '.join(facts.reasons)})" if facts.reasons else str(mode)
