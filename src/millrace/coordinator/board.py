"""What a coordinator knows of one pipeline, and how it gets on: in memory and in the store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from millrace.coordinator.deployment import Deployment
from millrace.coordinator.documents import (
    deployment_document,
    deployment_of,
    facts_document,
    facts_of,
    operation_document,
    operation_of,
)
from millrace.coordinator.examining import Examination, known_already
from millrace.coordinator.files import Files
from millrace.coordinator.observe import observed
from millrace.coordinator.operation import (
    Moment,
    Operation,
    OperationState,
    Setting,
    advanced,
    taken_back,
    undoing,
)
from millrace.coordinator.phases import Reports
from millrace.coordinator.starts import Change as Starting
from millrace.errors import OperationFailed
from millrace.model.impact import Impact
from millrace.model.pipeline import Pipeline
from millrace.model.step import Action, Kind, Plan, Reason, Step
from millrace.plan import plan
from millrace.ports import Change, Entry, EntryKind, Store
from millrace.ports.link import PipelineGoal
from millrace.spec import FileFormat, load_text
from millrace.wire import pipeline_document

#: Among the times of an operation: since when engines are asked.
_EXAMINED = "examine"


@dataclass(frozen=True, slots=True)
class Board:
    """A pipeline: its files, which of them is in force, and the change that is on its way."""

    name: str
    files: Files = field(default_factory=Files)
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

    def submitted(self, wanted: Pipeline, identity: str) -> tuple[Board, Change]:
        """Return the board with a change begun, and what the store must keep before it is told.

        Raises while another change is on its way.
        """
        if self.busy and self.operation is not None:
            raise OperationFailed(
                "busy",
                f"{self.name} is being changed (operation {self.operation.id})",
                "wait for it: millrace wait --for done, then apply again",
                transient=True,
            )
        number = self.newest + 1
        files = self.files.with_file(number, wanted)
        files = known_already(files, number, self.deployment)
        operation = Operation(identity, self.name, self.current, number)
        after = replace(
            self, files=files, newest=number, former=self.deployment, operation=operation
        )
        entry = Entry(EntryKind.INTENT, f"pipeline {self.name}", {"revision": number})
        change = Change({("file", _of(self.name, number)): pipeline_document(wanted)})
        return after, change + after.change(entries=(entry,))

    def ticked(self, reports: Reports, now: float, patience: float) -> tuple[Board, Change | None]:
        """Return the board after what was reported, and what the store must keep of it, if any."""
        if self.operation is None or self.operation.state.over:
            return self, None
        if self.examining:
            board, change = self._examined(self.operation, reports, now, patience)
            if change is None or board.operation is None:
                return board, change
            later, more = board.ticked(reports, now, patience) if board.planned else (board, None)
            return later, change + more if more is not None else change
        return self._stepped(self.operation, reports, now, patience)

    def _stepped(
        self, operation: Operation, reports: Reports, now: float, patience: float
    ) -> tuple[Board, Change | None]:
        undone = operation.state is OperationState.UNDOING
        start = Starting(self.files, operation.target, self.former, undone).start
        setting = Setting(self.files, start, reports, now, patience)
        before = Moment(operation, self.deployment)
        after = advanced(before, setting)
        if after.operation.why:
            after = self._turned(after)
        if after is before:
            return self, None
        done = after.operation.state is OperationState.DONE
        board = replace(
            self,
            operation=after.operation,
            deployment=after.deployment,
            current=after.operation.wanted if done else self.current,
        )
        return board, board.change(entries=after.entries)

    def _examined(
        self, operation: Operation, reports: Reports, now: float, patience: float
    ) -> tuple[Board, Change | None]:
        """Take note of what engines found out; when all is known, the change is planned."""
        before = Examination(self.files, operation.wanted)
        after = before.answered(reports)
        since = operation.since or {_EXAMINED: now}
        late = now - since[_EXAMINED] > patience
        if not after.unknown:
            seen = observed(self.deployment, after.files, operation.wanted)
            steps = plan(self.files[operation.wanted], seen, after.facts)
            moved = replace(operation, plan=steps, state=OperationState.RUNNING, since={})
        elif why := after.refused(reports) or (after.silent(reports) if late else ""):
            moved = replace(operation, state=OperationState.REFUSED, reason=why, since={})
        elif after is before and operation.since:
            return self, None
        else:
            moved = replace(operation, since=since)
        board = replace(self, files=after.files, operation=moved)
        entry = Entry(
            EntryKind.RESULT,
            f"operation {operation.id}",
            {"state": moved.state, "why": moved.reason},
        )
        return board, board.change(entries=() if moved.state is operation.state else (entry,))

    def goals(self) -> dict[str, PipelineGoal]:
        """Return what each site shall be, and what it is asked."""
        goals = self.deployment.goals(self.files)
        if self.operation is None or not self.examining:
            return goals
        return Examination(self.files, self.operation.wanted).goals(goals)

    def _turned(self, moment: Moment) -> Moment:
        """Begin to go back; an undoing that fails itself is stuck."""
        operation, why = moment.operation, moment.operation.why
        if operation.state is OperationState.UNDOING:
            return replace(moment, operation=replace(operation, state=OperationState.STUCK))
        deployment = taken_back(moment)
        back = observed(deployment, self.files, operation.before)
        steps = plan(self.files[operation.before], back, self.files.facts(operation.before))
        steps = _with_all(steps, deployment, operation)
        entry = Entry(EntryKind.EVENT, f"operation {operation.id}", {"undone": why})
        turned = undoing(replace(moment, deployment=deployment), steps)
        kept = replace(turned.operation, reason=why)
        return replace(turned, operation=kept, entries=(*moment.entries, entry))

    def change(self, entries: tuple[Entry, ...] = ()) -> Change:
        """Return what the store must keep of the board, but for its files."""
        puts: dict[tuple[str, str], Mapping[str, Any]] = {
            ("pipeline", self.name): {"newest": self.newest, "current": self.current},
            ("deployment", self.name): deployment_document(self.deployment),
            ("former", self.name): deployment_document(self.former),
        }
        if self.operation is not None:
            wanted = self.operation.wanted
            puts["operation", self.name] = operation_document(self.operation)
            puts["facts", _of(self.name, wanted)] = facts_document(self.files.facts(wanted))
        return Change(puts, entries=entries)

    @classmethod
    def restored(cls, store: Store, name: str, now: float) -> Board:
        """Return the board of what a store has."""
        kinds = ("pipeline", "deployment", "former", "operation")
        documents = {kind: store.load(kind).get(name) for kind in kinds}
        return cls._of(name, {k: d for k, d in documents.items() if d}, _files(store, name), now)

    @classmethod
    def _of(cls, name: str, documents: Mapping[str, Any], known: Files, now: float) -> Board:
        operation = documents.get("operation")
        return cls(
            name,
            known,
            documents["pipeline"]["newest"],
            documents["pipeline"]["current"],
            deployment_of(documents["deployment"]),
            deployment_of(documents["former"]),
            operation_of(operation, now) if operation is not None else None,
        )


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


def _of(name: str, number: int) -> str:
    return f"{name}/{number}"


def _files(store: Store, name: str) -> Files:
    known, facts = Files().with_file(0, Pipeline(name)), store.load("facts")
    for key, document in store.load("file").items():
        pipeline, _, number = key.rpartition("/")
        if pipeline == name:
            known = known.with_file(int(number), _pipeline_of(document))
            known = known.with_facts(int(number), facts_of(facts.get(key, {})))
    return known


def _pipeline_of(document: Mapping[str, Any]) -> Pipeline:
    return load_text(json.dumps(document), "stored", file_format=FileFormat.NATIVE).required()
