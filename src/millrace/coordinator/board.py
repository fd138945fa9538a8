"""What a coordinator knows of one pipeline, and how it gets on: decisions only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from millrace.coordinator.deployment import Deployment, with_files
from millrace.coordinator.examining import Examination, known_already
from millrace.coordinator.files import Files
from millrace.coordinator.losses import with_losses
from millrace.coordinator.observe import observed
from millrace.coordinator.operation import (
    Moment,
    Operation,
    OperationState,
    Setting,
    advanced,
    measured,
    taken_back,
    undoing,
)
from millrace.coordinator.phases import Reports, made_anew
from millrace.coordinator.revision import Revision, Submission, operation_id, superfluous
from millrace.coordinator.starts import Change as Starting
from millrace.coordinator.surroundings import with_surroundings
from millrace.errors import OperationFailed
from millrace.model.impact import Impact
from millrace.model.pipeline import Pipeline
from millrace.model.step import Action, Kind, Plan, Reason, Step
from millrace.plan import plan
from millrace.ports import Entry, EntryKind, JobState
from millrace.ports.link import PipelineGoal

#: Among the times of an operation: since when engines are asked.
_EXAMINED = "examine"
#: So many versions of a file are kept to go back to.
KEPT_REVISIONS = 50


@dataclass(frozen=True, slots=True)
class Board:
    """A pipeline: its files, which of them is in force, and the change that is on its way."""

    name: str
    files: Files = field(default_factory=Files)
    revisions: Mapping[int, Revision] = field(default_factory=dict)
    #: The numbers of the newest file and of that which is in force.
    newest: int = 0
    current: int = 0
    deployment: Deployment = field(default_factory=Deployment)
    #: What was there when the operation began.
    former: Deployment = field(default_factory=Deployment)
    operation: Operation | None = None

    @classmethod
    def empty(cls, name: str) -> Board:
        """Return a pipeline of which nothing is known."""
        return cls(name, Files().with_file(0, Pipeline(name)))

    @property
    def busy(self) -> bool:
        """Whether a change is on its way."""
        return self.operation is not None and not self.operation.state.over

    @property
    def planned(self) -> bool:
        """Whether a change is on its way whose steps are known."""
        return self.busy and not self.examining

    @property
    def examining(self) -> bool:
        """Whether engines are being asked about a new file."""
        return self.operation is not None and self.operation.state is OperationState.EXAMINING

    @property
    def file(self) -> Pipeline:
        """The file in force."""
        return self.files[self.current]

    @property
    def removed(self) -> bool:
        """Whether nothing of the pipeline is there, nor shall be."""
        return not self.busy and not self.file.jobs and not self.deployment.sites()

    def same(self, wanted: Pipeline) -> bool:
        """Whether a file asks for nothing that is not there: it is in force, and all is done."""
        settled = self.operation is not None and self.operation.state is OperationState.DONE
        settled = settled and all(p.goal.running or p.ended for p in self.deployment.jobs.values())
        return settled and self.current == self.newest and self.file == wanted

    def at_rest(self) -> Board:
        """Return the board of a pipeline of which nothing runs, and nothing is on its way."""
        deployment = self.deployment
        for name, placed in deployment.jobs.items():
            goal = replace(placed.goal, running=False, drains=(), to_end=False)
            deployment = deployment.with_job(name, replace(placed, goal=goal, ended=False))
        operation = self.operation
        if operation is not None and self.busy:
            why = "it was interrupted"
            operation = replace(operation, state=OperationState.UNDONE, reason=why, since={})
        return replace(self, deployment=deployment, operation=operation)

    def noted(self, reports: Reports, running: frozenset[str] = frozenset()) -> Board:
        """Return the board on which it stands how far queries are: those at rest, or at some sites.

        The same one where that is known already.
        """
        deployment = self.deployment
        for name, placed in deployment.jobs.items():
            told = reports[placed.site].jobs.get(name) if placed.site in reports else None
            if told is None or not told.progress.positions:
                continue
            seen = told.state is JobState.STOPPED or placed.site in running
            if seen and told.progress.positions != placed.reached:
                at = int(told.progress.at * 1000)
                moved = replace(placed, reached=told.progress.positions, at=at)
                deployment = deployment.with_job(name, moved)
        if deployment is self.deployment:
            return self
        return replace(self, deployment=deployment)

    def halted(self, queries: Sequence[str]) -> Board:
        """Return the board on which some queries stand still where they are."""
        deployment = self.deployment
        for name in queries:
            placed = deployment.jobs[name]
            goal = replace(placed.goal, running=False, drains=(), to_end=False)
            deployment = deployment.with_job(name, replace(placed, goal=goal))
        return replace(self, deployment=deployment)

    def proposed(self, wanted: Pipeline, lost: frozenset[str] = frozenset()) -> Plan:
        """Return what a file would change, as far as is known without asking engines."""
        number = self.newest + 1
        files = known_already(self.files.with_file(number, wanted), number, self.deployment)
        steps = plan(wanted, observed(self.deployment, files, number), files.facts(number))
        queries = files.queries(number).jobs
        return with_losses(steps, self.deployment, queries, self._stream_sites(), lost)

    def submitted(self, brought: Submission) -> tuple[Board, tuple[Entry, ...]]:
        """Return the board with a change begun, and what the journal is told of it.

        Raises while another change is on its way.
        """
        if self.busy and self.operation is not None and not self._yields(brought):
            raise OperationFailed(
                "busy",
                f"{self.name} is being changed (operation {self.operation.id})",
                f"wait for it: millrace wait {self.operation.id} --for done, then apply again",
                transient=True,
            )
        number = self.newest + 1
        files = self.files.with_file(number, brought.wanted, brought.code)
        files = files if brought.anew else known_already(files, number, self.deployment)
        operation = Operation(
            operation_id(self.name, number),
            self.name,
            self.current,
            number,
            state_loss=brought.state_loss,
            keeps=brought.keeps,
            lost=brought.lost,
        )
        revision = Revision(number, brought.by, brought.at, note=brought.note, code=brought.code)
        there = self.deployment
        inside = {name: job for name, job in there.inside.items() if name in self.file.jobs}
        there = replace(there, inside=inside)
        after = replace(
            self,
            files=files,
            revisions={**self.revisions, number: revision},
            newest=number,
            deployment=there,
            former=there,
            operation=operation,
        )
        detail = {"operation": operation.id, "revision": number, "by": brought.by}
        entry = Entry(EntryKind.INTENT, f"pipeline {self.name}", detail)
        return after._pruned(), (entry,)

    def _stream_sites(self) -> dict[str, str]:
        """Where the streams are that are there."""
        return {thing[0]: self.files.site(thing) for thing in self.deployment.streams}

    def _yields(self, brought: Submission) -> bool:
        """Whether the change on its way waits for a site that is now known to be lost."""
        return bool(brought.lost) and not self.examining

    def _pruned(self) -> Board:
        """The board without versions of its file that nobody goes back to any more."""
        jobs = (*self.deployment.jobs.values(), *self.deployment.inside.values())
        used = {placed.goal.revision for placed in jobs}
        things = self.deployment.streams | self.deployment.dropped | self.deployment.brokers
        used |= {number for _, number in things} | {self.current, self.newest}
        gone = superfluous(self.revisions, frozenset(used), KEPT_REVISIONS)
        kept = {number: it for number, it in self.revisions.items() if number not in gone}
        return replace(self, files=self.files.without(gone), revisions=kept) if gone else self

    def ticked(
        self, reports: Reports, now: float, patience: float
    ) -> tuple[Board, tuple[Entry, ...]]:
        """Return the board after what was reported; the same one where there is nothing new."""
        if self.operation is None or self.operation.state.over:
            return self, ()
        if self.examining:
            board, entries = self._examined(self.operation, reports, now, patience)
            if board is self or not board.planned:
                return board, entries
            later, more = board.ticked(reports, now, patience)
            return later, (*entries, *more)
        return self._stepped(self.operation, reports, now, patience)

    def _stepped(
        self, operation: Operation, reports: Reports, now: float, patience: float
    ) -> tuple[Board, tuple[Entry, ...]]:
        before = Moment(operation, self.deployment)
        begun = measured(before, self.files, reports, now, patience)
        start = Starting.of(begun.operation, self.files, self.former, reports).start
        after = advanced(begun, Setting(self.files, start, reports, now, patience))
        if after.operation.why:
            after = self._turned(after)
        if after is before:
            return self, ()
        done = after.operation.state is OperationState.DONE
        board = replace(
            self,
            operation=after.operation,
            deployment=after.deployment,
            current=after.operation.wanted if done else self.current,
        )
        return board, after.entries + board._ended()

    def _ended(self) -> tuple[Entry, ...]:
        """What the journal is told when an operation is over."""
        if self.operation is None or not self.operation.state.over:
            return ()
        detail = {"state": self.operation.state.value, "why": self.operation.reason}
        return (Entry(EntryKind.RESULT, f"operation {self.operation.id}", detail),)

    def _examined(
        self, operation: Operation, reports: Reports, now: float, patience: float
    ) -> tuple[Board, tuple[Entry, ...]]:
        """Take note of what engines found out; when all is known, the change is planned."""
        before = Examination(self.files, operation.wanted)
        after = before.answered(reports)
        since = operation.since or {_EXAMINED: now}
        late = now - since[_EXAMINED] > patience
        if not after.unknown:
            seen = observed(self.deployment, after.files, operation.wanted)
            steps = plan(self.files[operation.wanted], seen, after.facts, keeps=operation.keeps)
            steps = _keeping(steps) if operation.keeps else steps
            queries = self.files.queries(operation.wanted).jobs
            steps = with_losses(
                steps, self.deployment, queries, self._stream_sites(), operation.lost
            )
            moved = _allowed(replace(operation, plan=steps, state=OperationState.RUNNING, since={}))
        elif why := after.refused(reports) or (after.silent(reports) if late else ""):
            moved = replace(operation, state=OperationState.REFUSED, reason=why, since={})
        elif after is before and operation.since:
            return self, ()
        else:
            moved = replace(operation, since=since)
        board = replace(self, files=after.files, operation=moved)
        return board, board._ended()

    def sites(self, wanted: Pipeline) -> frozenset[str]:
        """Return the sites of a file, and those of what runs now."""
        now = frozenset(self.files[self.current].sites)
        return frozenset(wanted.sites) | now | self.deployment.sites()

    def goals(self, reports: Reports) -> dict[str, PipelineGoal]:
        """Return what each site shall be, and what it is asked, by what others report."""
        goals = self.deployment.goals(self.files)
        if self.operation is not None and self.planned:
            goals = {**self._ending(self.operation), **goals}
        if self.operation is not None and self.examining:
            goals = Examination(self.files, self.operation.wanted).goals(goals)
        if self.operation is not None and self.operation.measuring:
            goals = self.operation.joining(self.files).goals(goals, self.deployment)
        return with_surroundings(goals, self.deployment, reports)

    def _ending(self, operation: Operation) -> dict[str, PipelineGoal]:
        """What sites are told of which only the end of their broker is still to be heard."""
        files = {number: self.files[number] for number in (operation.before, operation.wanted)}
        return {
            site: with_files(
                PipelineGoal(), self.files, (n for n in files if site in files[n].sites)
            )
            for site in operation.ending
        }

    def _turned(self, moment: Moment) -> Moment:
        """Begin to go back; an undoing that fails itself is stuck."""
        operation, why = moment.operation, moment.operation.why
        if operation.state is OperationState.UNDOING or operation.lost:
            # There is no way back to a site that is lost.
            stuck = replace(operation, state=OperationState.STUCK, reason=operation.reason or why)
            return replace(moment, operation=stuck)
        deployment = taken_back(moment)
        back = observed(deployment, self.files, operation.before)
        steps = plan(self.files[operation.before], back, self.files.facts(operation.before))
        steps = _with_all(_without_replacing(steps), deployment, operation)
        entry = Entry(EntryKind.EVENT, f"operation {operation.id}", {"undone": why})
        turned = undoing(replace(moment, deployment=deployment), steps)
        kept = replace(turned.operation, reason=why)
        return replace(turned, operation=kept, entries=(*moment.entries, entry))


def _keeping(steps: Plan) -> Plan:
    """Return a plan in which no stream goes, and no broker; nor is a stream made anew."""
    gone = {s.id for s in steps.steps if s.action is Action.DELETE and s.kind is not Kind.JOB}
    left = _without(steps, gone)
    kept = tuple(
        replace(step, impact=Impact.RESTART) if made_anew(step) else step for step in left.steps
    )
    return replace(left, steps=kept)


def _allowed(operation: Operation) -> Operation:
    """Refuse a change in which jobs would lose what they keep, unless that was allowed."""
    steps = operation.plan.steps
    kept = [step for step in steps if step.action is not Action.DELETE]  # who removes a job knows
    lost = [step.name for step in kept if step.impact is Impact.STATE_LOST]
    if not lost or operation.state_loss:
        return operation
    why = f"what {', '.join(lost)} keeps would be lost: apply with --allow-state-loss to accept it"
    return replace(operation, state=OperationState.REFUSED, reason=why)


def _without_replacing(steps: Plan) -> Plan:
    """Return a way back on which no stream is made anew: what it holds would be lost."""
    return _without(steps, {step.id for step in steps.steps if made_anew(step)})


def _without(steps: Plan, gone: set[str]) -> Plan:
    """Return a plan without some steps."""
    kept = tuple(
        replace(step, after=tuple(name for name in step.after if name not in gone))
        for step in steps.steps
        if step.id not in gone
    )
    return replace(steps, steps=kept)


def _with_all(steps: Plan, deployment: Deployment, operation: Operation) -> Plan:
    """Return a plan back in which every job is that has its place by the file that is given up.

    What a job does may differ by what its streams say, though nothing of the job itself does.
    """
    named = {step.name for step in steps.steps if step.kind is Kind.JOB}
    made = tuple(
        step.id
        for step in steps.steps
        if step.kind is not Kind.JOB and step.action is not Action.DELETE
    )
    more = [
        Step(
            Action.CHANGE,
            Kind.JOB,
            name,
            placed.site,
            Impact.RESTART,
            (Reason("it goes back to the file before", Impact.RESTART),),
            ("checkpoint",),
            after=made,
        )
        for name, placed in deployment.jobs.items()
        if placed.goal.revision == operation.wanted and name not in named
    ]
    return replace(steps, steps=(*steps.steps, *more))
