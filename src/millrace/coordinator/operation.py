"""A change on its way: which steps are done, and what comes next. Decisions only, no effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from millrace.coordinator.deployment import Deployment
from millrace.coordinator.files import Files
from millrace.coordinator.joining import Joining, not_told
from millrace.coordinator.phases import (
    Phase,
    Reports,
    Start,
    finished,
    made_anew,
    ordered,
    outcome,
    phases_of,
    site_of,
)
from millrace.model.step import Action, Kind, Plan, Step
from millrace.ports import Entry, EntryKind, JobState
from millrace.ports.link import Positions

#: Among the times of an operation: since when sites are asked where streams end.
_ENDS = "ends"


@dataclass(frozen=True, slots=True)
class Setting:
    """What an operation is decided by, beside itself."""

    files: Files
    #: Where a query starts by a step, as things are at that moment.
    start: Callable[[Deployment, Step], Start]
    reports: Reports
    now: float
    #: How long a phase may take that is not known to have failed, in seconds.
    patience: float


class OperationState(StrEnum):
    """How an operation is; the last four are for ever.

    One that is refused has done nothing.
    """

    EXAMINING = "examining"
    RUNNING = "running"
    UNDOING = "undoing"
    DONE = "done"
    UNDONE = "undone"
    STUCK = "stuck"
    REFUSED = "refused"

    @property
    def over(self) -> bool:
        """Whether nothing of it happens any more."""
        return self not in _ALIVE


_ALIVE = frozenset({OperationState.EXAMINING, OperationState.RUNNING, OperationState.UNDOING})


@dataclass(frozen=True, slots=True)
class Operation:
    """A change of a pipeline from one file to another."""

    id: str
    pipeline: str
    #: The numbers of the files; 0 for none.
    before: int
    wanted: int
    plan: Plan = field(default_factory=Plan)
    state: OperationState = OperationState.EXAMINING
    #: By step, how many of its phases are done.
    done: Mapping[str, int] = field(default_factory=dict)
    #: By step, since when a phase of it is ordered.
    since: Mapping[str, float] = field(default_factory=dict)
    #: By query that stops and starts again: since when it was to stand still; and by the step in
    #: which it starts, how long it did, in seconds. What is on its way while a coordinator ends is
    #: not measured.
    halted: Mapping[str, float] = field(default_factory=dict)
    downtime: Mapping[str, float] = field(default_factory=dict)
    #: What went wrong and is not dealt with yet; and why it was undone.
    why: str = ""
    reason: str = ""
    #: Whether jobs may lose what they keep, where it can't be carried over.
    state_loss: bool = False
    #: Whether streams stay that are no longer in the file.
    keeps: bool = False
    #: Sites that are known to be down: nothing is waited for that they would do.
    lost: frozenset[str] = frozenset()
    #: By stream that queries newly read, as the wanted file names it: where it ended as this began.
    ends: Positions = field(default_factory=dict)
    #: Of these, where queries stopped that leave them: who takes over begins there.
    left: Positions = field(default_factory=dict)
    #: The streams of the wanted file whose logs were made anew before this was undone.
    remade: frozenset[str] = frozenset()

    @property
    def measuring(self) -> bool:
        """Whether it waits for sites to say where streams end; nothing is ordered yet then."""
        return self.state is OperationState.RUNNING and _ENDS in self.since

    def joining(self, files: Files) -> Joining:
        """Return what it must know of streams before anything is ordered."""
        return Joining(files, self.before, self.wanted, self.plan, self.lost)

    @property
    def target(self) -> int:
        """The number of the file that it is on its way to."""
        return self.before if self.state is OperationState.UNDOING else self.wanted

    def is_done(self, step: Step) -> bool:
        """Whether all phases of a step are done."""
        return self.done.get(step.id, 0) >= len(phases_of(step))

    @property
    def ending(self) -> frozenset[str]:
        """The sites whose brokers are ordered to end, and of which nobody has said that they did.

        Nothing else may be wanted there, and all the same it must be heard of them.
        """
        ends = (s for s in self.plan.steps if s.kind is Kind.BROKER and s.action is Action.DELETE)
        return frozenset(step.place for step in ends if step.id in self.since)

    @property
    def next_steps(self) -> list[Step]:
        """The steps that may be worked on now; what can't be undone comes when all else is done."""
        over = {step.id for step in self.plan.steps if self.is_done(step)}
        left = [step for step in self.plan.steps if step.id not in over]
        undoable = any(not _final(step) for step in left)
        return [
            step
            for step in left
            if all(name in over for name in step.after) and not (undoable and _final(step))
        ]


def _final(step: Step) -> bool:
    """Whether a step takes records away."""
    return step.action is Action.DELETE and step.kind is not Kind.JOB


@dataclass(frozen=True, slots=True)
class Moment:
    """An operation and its pipeline's deployment, and what the journal is told of a move."""

    operation: Operation
    deployment: Deployment
    entries: tuple[Entry, ...] = ()

    def told(self, kind: EntryKind, step: Step, phase: Phase, **more: str) -> Moment:
        """Return it with one more line for the journal."""
        detail = {"step": step.id, "phase": phase.value, **more}
        entry = Entry(kind, f"operation {self.operation.id}", detail)
        return replace(self, entries=(*self.entries, entry))


def advanced(moment: Moment, setting: Setting) -> Moment:
    """Return the next moment: what is done is ticked off, and what may come now is ordered.

    The same moment comes back where there is nothing to do. A phase that failed for good, or did
    not get done in time, is told by the operation's `why`; the caller undoes it then. Nothing is
    ordered before it is known where streams end that queries newly read.
    """
    waits = moment.operation.measuring
    if waits or moment.operation.state not in (OperationState.RUNNING, OperationState.UNDOING):
        return moment
    moved = True
    while moved and not moment.operation.why:
        moved = False
        for step in moment.operation.next_steps:  # each may be worked on whatever others do
            after = _step(moment, step, setting)
            if after is not moment:
                moment, moved = after, True
            if after.operation.why:
                break
    operation = moment.operation
    if not operation.why and all(map(operation.is_done, operation.plan.steps)):
        undoing = operation.state is OperationState.UNDOING
        state = OperationState.UNDONE if undoing else OperationState.DONE
        moment = replace(moment, operation=replace(operation, state=state))
    return moment


def measured(moment: Moment, files: Files, reports: Reports, now: float, patience: float) -> Moment:
    """Return the moment with what is known of where streams end that queries newly read.

    Until all is, it is waited for; what was said first stays. A change for which that is not said
    in time is refused: nothing of it was done. The same moment comes back where there is nothing
    new, or something was ordered.
    """
    operation = moment.operation
    begun = bool(operation.done or operation.since) and not operation.measuring
    if begun or operation.state is not OperationState.RUNNING:
        return moment
    joining = operation.joining(files)
    asked = joining.asked(moment.deployment)
    ends = {**joining.answered(asked, reports), **operation.ends}
    left = [it for name, it in asked.items() if name not in ends]
    since = {_ENDS: operation.since.get(_ENDS, now)} if left else {}
    after = replace(operation, ends=ends, since=since)
    if left and now - since[_ENDS] > patience:
        why = not_told(left[0], reports)
        after = replace(after, state=OperationState.REFUSED, reason=why, since={})
    return moment if after == operation else replace(moment, operation=after)


def _step(moment: Moment, step: Step, setting: Setting) -> Moment:
    operation, deployment = moment.operation, moment.deployment
    count = operation.done.get(step.id, 0)
    phase = phases_of(step)[count]
    if step.id not in operation.since:
        return _ordered(moment, step, phase, setting)
    found = outcome(deployment, step, phase, operation.target, setting.reports, operation.lost)
    if found.done:
        since = {name: at for name, at in operation.since.items() if name != step.id}
        after = replace(operation, done={**operation.done, step.id: count + 1}, since=since)
        after = _timed(after, step, phase, setting.now)
        rest = finished(deployment, step, phase, setting.reports)
        if phase is Phase.STOP and operation.state is OperationState.RUNNING:
            joining, placed = after.joining(setting.files), rest.jobs[step.name]
            after = replace(after, left=joining.left(step, placed, after.ends, after.left))
        return replace(moment, operation=after, deployment=rest).told(EntryKind.EFFECT, step, phase)
    waited = setting.now - operation.since[step.id]
    # What is being undone is tried for as long as it takes: there is nothing to go back to.
    # So is what can't be undone: all else is done then.
    late = waited > setting.patience and operation.state is OperationState.RUNNING
    late = late and not _final(step)
    if late or not found.transient:
        why = f"{step.id}: {found.error or _silent(site_of(deployment, step))}"
        failed = replace(moment, operation=replace(operation, why=why))
        return failed.told(EntryKind.RESULT, step, phase, error=why)
    return moment


def _hopeless(deployment: Deployment, step: Step, setting: Setting) -> bool:
    """Whether a query failed for good: nobody can have it read anything to its end."""
    placed = deployment.jobs[step.name]
    report = setting.reports.get(placed.site)
    job = report.jobs.get(step.name) if report is not None else None
    return job is not None and job.state is JobState.FAILED and not job.transient


def _silent(site: str) -> str:
    return (
        f"site {site} did not do it in time (is its agent up? If the site is down for good, apply "
        f"with --site-lost {site})"
    )


def _timed(operation: Operation, step: Step, phase: Phase, now: float) -> Operation:
    """Take note how long a query stood still, when it runs again."""
    if phase is not Phase.START or step.name not in operation.halted:
        return operation
    took = round(max(now - operation.halted[step.name], 0.0), 3)
    return replace(operation, downtime={**operation.downtime, step.id: took})


def _ordered(moment: Moment, step: Step, phase: Phase, setting: Setting) -> Moment:
    operation, before = moment.operation, moment.deployment
    if phase is Phase.STOP and step.action is Action.DELETE and _hopeless(before, step, setting):
        step = replace(step, drains=())
    start = setting.start(before, step) if phase is Phase.START else None
    after = ordered(before, step, phase, setting.files, operation.target, start)
    since = {**operation.since, step.id: setting.now}
    halted = operation.halted
    if phase is Phase.STOP:  # one that stopped in a step of its own stands still since then
        halted = {step.name: setting.now, **halted}
    told = replace(operation, since=since, halted=halted)
    begun = replace(moment, operation=told, deployment=after)
    return begun.told(EntryKind.INTENT, step, phase)


def undoing(moment: Moment, plan: Plan) -> Moment:
    """Return the moment in which an operation that failed begins to go back."""
    given_up = moment.operation
    begun = {*given_up.since, *given_up.done}
    remade = (step.name for step in given_up.plan.steps if made_anew(step) and step.id in begun)
    operation = replace(
        given_up,
        state=OperationState.UNDOING,
        plan=plan,
        done={},
        since={},
        halted={},
        downtime={},
        why="",
        ends={},
        left={},
        remade=frozenset(remade),
    )
    return replace(moment, operation=operation)


def taken_back(moment: Moment) -> Deployment:
    """Return the deployment without the stops that were ordered and are not done yet.

    Such a query goes on where it runs, or starts again where it had just stopped.
    """
    operation, deployment = moment.operation, moment.deployment
    for step in operation.plan.steps:
        if step.id not in operation.since or step.kind is not Kind.JOB:
            continue
        if phases_of(step)[operation.done.get(step.id, 0)] is Phase.STOP:
            placed = deployment.jobs[step.name]
            goal = replace(placed.goal, running=not placed.ended, drains=())
            deployment = deployment.with_job(step.name, replace(placed, goal=goal))
    return deployment
