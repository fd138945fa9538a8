"""`plan`: the steps from what is there to what is wanted, in an order that loses no record."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from millrace.errors import BrokenInvariant
from millrace.model.pipeline import Pipeline
from millrace.model.places import World
from millrace.model.status import Facts, Observed
from millrace.model.step import Action, Kind, Plan, Step
from millrace.plan.changes import mode_note
from millrace.plan.draft import Draft
from millrace.plan.fuse import as_queries, fusion
from millrace.plan.needs import needs, wishes
from millrace.plan.order import components, sorted_steps, with_wishes

_KINDS: Final = (Kind.PILOT, Kind.BROKER, Kind.STREAM, Kind.JOB)
_ACTIONS: Final = tuple(Action)
_SHOWN: Final = 5
_STARTS: Final = (Action.CREATE, Action.CHANGE, Action.MOVE, Action.START)


def plan(desired: Pipeline, observed: Observed, facts: Facts, *, keeps: bool = False) -> Plan:
    """Return the steps from observed to desired; the same input always gives the same plan.

    Jobs that are one query are one thing here, under the name of the first. With `keeps` streams
    that are no longer wanted will stay: what is read from them is read to its end.
    """
    before = observed.pipeline if observed.queries else as_queries(observed.pipeline)
    wanted = as_queries(desired)
    draft = Draft(World(before), World(wanted), facts, observed.down, keeps)
    draft.fill()
    needed = needs(draft)
    if circles := components(draft.steps, needed):
        draft.split({name for circle in circles for name in circle})
        needed = needs(draft)
        if circles := components(draft.steps, needed):  # of jobs of several files
            needed = needs(draft, frozenset(name for circle in circles for name in circle))
    after = with_wishes(draft.steps, needed, wishes(draft))
    order = sorted_steps(draft.steps, after, lambda name: _rank(draft.steps[name]))
    if len(order) != len(draft.steps):
        message = "the steps of a plan need each other in a circle"
        raise BrokenInvariant(message)
    steps = tuple(replace(draft.steps[name], after=tuple(sorted(after[name]))) for name in order)
    about = (*_fused(desired), *_windows(desired)) if steps else ()
    notes = (*_notes(draft, steps, facts), *about)
    return Plan(steps, _untouched(wanted, steps), notes)


def _rank(step: Step) -> tuple[int, int, tuple[tuple[int, str], ...]]:
    """The order of steps that may run side by side: by kind, then as people count names."""
    parts = re.findall(r"([0-9]{1,18})|([^0-9]+|[0-9])", step.name)
    name = tuple((int(number or 0), text) for number, text in parts)
    return _KINDS.index(step.kind), _ACTIONS.index(step.action), name


def _untouched(desired: Pipeline, steps: tuple[Step, ...]) -> int:
    touched = {step.name for step in steps if step.kind is Kind.JOB}
    left = [job for name, job in desired.jobs.items() if name not in touched]
    return sum(len(job.members) or 1 for job in left)


def _fused(desired: Pipeline) -> tuple[str, ...]:
    """Say which jobs are one query, and which streams are stored though they need not be."""
    found = fusion(desired)
    return (
        *(f"one query: {', '.join(names)}" for names in found.groups),
        *(f"{name} is stored though transient: {why}" for name, why in found.stored.items()),
    )


def _windows(desired: Pipeline) -> tuple[str, ...]:
    """Say whose windows jobs have, and where results depend on when records come."""
    jobs = desired.jobs.values()
    whose: dict[str, list[str]] = {}
    for job in jobs:
        if job.windows:
            whose.setdefault(job.windows, []).append(job.name)
    idle = [job.name for job in jobs if job.window is not None and job.window.idle is not None]
    return (
        *(_listed(names, f"windows are {what}") for what, names in whose.items()),
        *((_listed(idle, "`idle` lets results depend on when records come"),) if idle else ()),
    )


def _notes(draft: Draft, steps: tuple[Step, ...], facts: Facts) -> tuple[str, ...]:
    notes = [_listed(names, what) for what, names in draft.notes.items() if names]
    was, now = draft.old.pipeline.name, draft.new.pipeline.name
    if draft.old.pipeline.jobs and was != now:
        notes.append(f"the pipeline was called {was!r} and is called {now!r}")
    started = [step.name for step in steps if step.kind is Kind.JOB and step.action in _STARTS]
    return (*notes, *mode_note(started, facts)) if started else tuple(notes)


def _listed(names: list[str], what: str) -> str:
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" * (len(names) > _SHOWN))
    return f"{shown}: {what}"
