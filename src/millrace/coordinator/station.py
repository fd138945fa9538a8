"""A coordinator that is up: all its parts, and what it does for who asks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from millrace.agent.agent import Agent, WorkshopOf
from millrace.agent.answers import answered
from millrace.coordinator.board import Board
from millrace.coordinator.home import FIRST_TOKEN, Home
from millrace.coordinator.keyring import Keyring, Wanted
from millrace.coordinator.operation import Operation
from millrace.coordinator.questions import Questions
from millrace.coordinator.requests import Request
from millrace.coordinator.revision import Revision, Submission, operation_parts, versioned
from millrace.coordinator.rounds import Bell, Rounds
from millrace.coordinator.service import Clocks, Coordinator
from millrace.coordinator.showing import (
    JobViews,
    operation_view,
    past_operation_view,
    pipeline_view,
    plan_view,
)
from millrace.coordinator.sites import is_here, site_views
from millrace.coordinator.tokens import Issued, Role
from millrace.coordinator.views import (
    JobView,
    LogView,
    OperationView,
    PipelineView,
    PlanView,
    RecordView,
    SiteView,
)
from millrace.errors import OperationFailed, nearest
from millrace.model.pipeline import Pipeline
from millrace.ports import Change, Entry, EntryKind
from millrace.ports.link import Question, SiteGoal, SiteReport
from millrace.stores.artifacts import Artifacts

_LOG = logging.getLogger(__name__)
#: For so long what costs traffic is worked out after somebody looked.
LOOKED_SECONDS = 15.0
#: Folders of a pipeline at a site on this machine.
PlaceOf = Callable[[str, str], Path]


@dataclass(slots=True)
class Station:
    """The parts of a coordinator; any thread may call. `open` starts it, `close` ends it."""

    coordinator: Coordinator
    keyring: Keyring
    artifacts: Artifacts
    bell: Bell
    questions: Questions
    rounds: Rounds
    #: Whether another coordinator took over.
    superseded: bool = False
    _over: list[Callable[[], None]] = field(default_factory=list)
    #: When somebody last looked at the jobs of each pipeline.
    _looked: dict[str, float] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        home: Home,
        workshops: WorkshopOf,
        place: PlaceOf,
        *,
        above: int = 0,
        warn: Callable[[str], None] = _LOG.warning,
    ) -> Station:
        """Take over the state of a home and begin; raises where another coordinator has it.

        For `above` see `take`; `warn` is told what a person must know of.
        """
        tenure = home.tenure(above, warn)
        bell = Bell()
        clocks = Clocks(time.time, time.monotonic)
        coordinator = Coordinator(tenure, clocks, wake=bell.ring, warn=warn)
        keyring = Keyring(tenure, time.time)
        if not keyring.tokens:
            keyring.issue(Wanted(FIRST_TOKEN, Role.ADMIN), "millrace up", home.write_token)
        coordinator.joined = lambda site: site in keyring.sites
        questions = Questions(coordinator.roster, bell)
        agent = Agent(workshops, place, allowed=tenure.check, wake=bell.ring, answer=answered)
        rounds = Rounds(
            coordinator,
            agent,
            bell,
            lambda site, goal: station.asked(site, goal),  # noqa: PLW0108 - it is made below
            lambda site, goal: is_here(site, goal, keyring.sites),
            lambda: station.give_up(),  # noqa: PLW0108 - it is made below
        )
        station = cls(coordinator, keyring, home.artifacts, bell, questions, rounds)
        rounds.start()
        return station

    def give_up(self) -> None:
        """Another coordinator took over: tell who must know."""
        self.superseded = True
        for told in self._over:
            told()

    def when_superseded(self, told: Callable[[], None]) -> None:
        """Have somebody told when another coordinator takes over."""
        self._over.append(told)

    def close(self) -> None:
        """Stop what runs here as planned, and let go of the state.

        Who was superseded plans nothing any more: what is left of its own processes ends at once.
        """
        if self.superseded:
            self.kill()
        self.rounds.stop()
        self.coordinator.tenure.store.close()

    def kill(self) -> None:
        """End every process at once; the next start finds what was written."""
        self.rounds.agent.kill()

    # What shall be

    def apply(
        self, brought: Submission, expected: int | None = None, request: Request | None = None
    ) -> OperationView:
        """Begin to change a pipeline; see `Coordinator.apply`."""
        if request is not None and (known := self.coordinator.answered(request)) is not None:
            return self.operation(known)  # others may have changed it since
        if brought.code is not None and self.artifacts.missing([brought.code]):
            raise OperationFailed(
                "no-artifact",
                f"the code {brought.code[:12]} of {brought.wanted.name} is not here",
                "send it first: PUT /api/v1/artifacts/DIGEST",
            )
        brought = replace(brought, wanted=versioned(brought.wanted, brought.code))
        done = self.coordinator.apply(brought, expected, request)
        board = self.coordinator.board(brought.wanted.name)
        return operation_view(board, done, self.coordinator.estimates)

    def plan(self, wanted: Pipeline, lost: frozenset[str] = frozenset()) -> PlanView:
        """Return what a file would change, where some sites are lost."""
        revision, steps = self.coordinator.proposed(wanted, lost)
        return plan_view(wanted.name, revision, steps, self.coordinator.estimates)

    def revised(self, pipeline: str, number: int) -> tuple[Pipeline, str | None]:
        """Return a version of a pipeline's file, with the artifact of its code."""
        board = self.coordinator.board(pipeline)
        if number not in board.revisions:
            known = ", ".join(str(n) for n in sorted(board.revisions)[-5:])
            raise OperationFailed(
                "no-revision", f"{pipeline} has no revision {number}", f"the last are {known}"
            )
        return board.files[number], board.files.code(number)

    def audited(self, by: str, request: str, status: int, **more: str | int) -> None:
        """Tell the journal who asked for a change, and how that was answered."""
        detail = {"by": by, "status": status, **more}
        told = Entry(EntryKind.EVENT, f"request {request}", detail)
        self.coordinator.tenure.commit(Change(entries=(told,)))
        self.bell.ring()

    # What is

    def last_entry(self) -> int:
        """Return the number of the journal's last entry."""
        return self.coordinator.tenure.commit(Change())  # which keeps nothing

    def pipelines(self) -> list[PipelineView]:
        """Return all pipelines that were not removed."""
        boards = sorted(self.coordinator.boards.items())
        return [self.pipeline(name) for name, board in boards if not board.removed]

    def pipeline(self, name: str) -> PipelineView:
        """Return a pipeline."""
        board = self.coordinator.board(name)
        return pipeline_view(board, self.coordinator.roster.reports(name))

    def jobs(self, pipeline: str) -> Sequence[JobView]:
        """Return the jobs of a pipeline; for a while sites tell more of them then."""
        self._looked[pipeline] = time.monotonic()
        board = self.coordinator.board(pipeline)
        return JobViews(board, self.coordinator.roster.reports(pipeline))

    def job(self, pipeline: str, name: str) -> JobView:
        """Return a job; raises where there is none of that name."""
        jobs = {job.name: job for job in self.jobs(pipeline)}
        if name not in jobs:
            near = nearest(name, jobs)
            way = f"did you mean {near}?" if near else f"millrace get jobs {pipeline} lists them"
            raise OperationFailed("no-job", f"there is no job {name} in {pipeline}", way)
        return jobs[name]

    def operation(self, identity: str) -> OperationView:
        """Return a change, on its way or over."""
        board, found = self._operation(identity)
        if isinstance(found, Revision):
            return past_operation_view(board, found)
        return operation_view(board, found, self.coordinator.estimates)

    def is_over(self, identity: str) -> bool:
        """Whether a change is over; costs next to nothing, for who asks again and again."""
        _, found = self._operation(identity)
        return isinstance(found, Revision) or found.state.over

    def _operation(self, identity: str) -> tuple[Board, Operation | Revision]:
        """A change that is on its way, or the last one; the revision of one before that."""
        parts = operation_parts(identity)
        boards = self.coordinator.boards
        if parts is None or parts[0] not in boards:
            raise _no_operation(identity)
        board, number = boards[parts[0]], parts[1]
        if board.operation is not None and board.operation.id == identity:
            return board, board.operation
        if number not in board.revisions:
            raise _no_operation(identity)
        return board, board.revisions[number]

    def operations(self) -> list[OperationView]:
        """Return all changes that are known, the newest first, without their steps."""
        found = [
            replace(self._operation_of(board, number), steps=())
            for board in self.coordinator.boards.values()
            for number in board.revisions
        ]
        return sorted(found, key=lambda view: view.at, reverse=True)

    def _operation_of(self, board: Board, number: int) -> OperationView:
        if board.operation is not None and board.operation.wanted == number:
            return operation_view(board, board.operation, self.coordinator.estimates)
        return past_operation_view(board, board.revisions[number])

    def sites(self) -> list[SiteView]:
        """Return all sites that pipelines name or agents joined."""
        return site_views(self.coordinator, self.keyring.sites)

    # Questions to sites

    def log(self, pipeline: str, job: str, after: int, most: int) -> LogView:
        """Return a piece of a job's log; `after` -1 is its end."""
        view = self.job(pipeline, job)
        options = {"after": after, "most": most}
        question = Question(pipeline, "log", view.query or job, options)
        answer = self.questions.ask(view.site, question)
        return LogView(str(answer["text"]), int(answer["next"]))

    def records(self, pipeline: str, stream: str, most: int) -> list[RecordView]:
        """Return the last records of a stream."""
        streams = self.coordinator.board(pipeline).file.streams
        if stream not in streams:
            near = nearest(stream, streams)
            way = f"did you mean {near}?" if near else f"millrace get streams {pipeline}"
            raise OperationFailed("no-stream", f"there is no stream {stream} in {pipeline}", way)
        question = Question(pipeline, "records", stream, {"most": most})
        answer = self.questions.ask(streams[stream].site or "", question)
        return [RecordView(**record) for record in answer["records"]]

    # Agents

    def heard(self, report: SiteReport) -> None:
        """Take what a site's agent tells."""
        self.coordinator.heard(report)

    def goal(self, site: str) -> SiteGoal:
        """Return what a site shall be now, with what it is asked."""
        told = self.coordinator.goals().get(site) or SiteGoal(self.coordinator.tenure.generation)
        return self.asked(site, told)

    def asked(self, site: str, goal: SiteGoal) -> SiteGoal:
        """Return a goal with what a site is asked, and whether somebody looks at it."""
        now = time.monotonic()
        watched = {
            name: replace(it, watched=True)
            for name, it in goal.pipelines.items()
            if self._looked.get(name, -LOOKED_SECONDS) > now - LOOKED_SECONDS
        }
        pipelines = {**goal.pipelines, **watched} if watched else goal.pipelines
        return replace(goal, pipelines=pipelines, questions=self.questions.of(site))

    def granted(self, site: str) -> None:
        """Take note that a site's agent was told what it shall be: its leases are renewed."""
        self.coordinator.roster.grant(site, self.coordinator.clocks.steady())

    def issue(self, wanted: Wanted, by: str) -> Issued:
        """Make a token; raises for the agent of a site that this coordinator serves itself."""
        here = wanted.site is not None and wanted.site not in self.keyring.sites
        if here and any(v.name == wanted.site and v.pipelines for v in self.sites()):
            raise OperationFailed(
                "served-here",
                f"site {wanted.site} is served by the coordinator itself, and things run there",
                "remove them from it first, or give the agent's site another name",
            )
        return self.keyring.issue(wanted, by)


def _no_operation(identity: str) -> OperationFailed:
    return OperationFailed(
        "no-operation", f"there is no operation {identity}", "millrace get operations lists them"
    )
