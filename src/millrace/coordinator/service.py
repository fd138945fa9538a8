"""A coordinator: pipelines by the store, and what sites are told and tell of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from threading import RLock

from millrace.agent.generations import way_above
from millrace.coordinator.board import Board
from millrace.coordinator.ends import state_of, with_ends
from millrace.coordinator.failover import FAILOVER, expired, failed_over, gone_back
from millrace.coordinator.kept import all_restored, kept
from millrace.coordinator.losses import check_lost
from millrace.coordinator.operation import Operation
from millrace.coordinator.phases import Reports
from millrace.coordinator.requests import Request, Requests
from millrace.coordinator.revision import Submission, operation_parts
from millrace.coordinator.roster import AWAY_SECONDS, Roster
from millrace.coordinator.showing import estimates_of
from millrace.coordinator.tenure import Superseded, Tenure
from millrace.errors import OperationFailed, nearest
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.step import Plan
from millrace.plan.downtime import Estimates
from millrace.ports import Change, Conflict, Entry, EntryKind, JobState
from millrace.ports.link import PipelineGoal, PipelineReport, SiteGoal, SiteReport

_LOG = logging.getLogger(__name__)
#: How long a phase of a change may take that is not known to have failed.
PATIENCE_SECONDS = 300.0
#: How often it is kept how far the queries of other machines are.
NOTE_SECONDS = 10.0
#: A failover that did not work is tried again after so long.
AGAIN_SECONDS = 60.0


class Moved(OperationFailed):
    """A pipeline is not any more as who wants to change it saw it."""

    def __init__(self, name: str, expected: int, found: int) -> None:
        self.revision = found
        super().__init__(
            "moved",
            f"{name} is at revision {found}, and {expected} was expected",
            "look at what is there now (millrace diff), then apply again",
        )


@dataclass(frozen=True, slots=True)
class Clocks:
    """What time it is: for people, in seconds since the epoch, and forward only."""

    wall: Callable[[], float]
    steady: Callable[[], float]


@dataclass(slots=True)
class Coordinator:
    """Takes changes from any thread; `tick` is called by one, again and again."""

    tenure: Tenure
    clocks: Clocks
    patience: float = PATIENCE_SECONDS
    #: Told when there is something new for sites.
    wake: Callable[[], None] = lambda: None
    #: Told what a person must know of.
    warn: Callable[[str], None] = _LOG.warning
    roster: Roster = field(default_factory=Roster)
    #: Whether a query that failed for good counts as over, for who reads what it wrote.
    failures_end: bool = False
    #: Whether a site is served by an agent of its own.
    joined: Callable[[str], bool] = lambda _: False
    #: For how long jobs stood still in changes so far.
    estimates: Estimates = field(default_factory=Estimates)
    _boards: Mapping[str, Board] = field(default_factory=dict)
    _requests: Requests = field(default_factory=Requests)
    #: By pipeline: the board and reports by which goals were worked out last, and those.
    _worked_out: dict[str, tuple[Board, Reports, dict[str, PipelineGoal]]] = field(
        default_factory=dict
    )
    #: By pipeline and query: when one whose lease had run out was tried elsewhere.
    _late_since: dict[tuple[str, str], float] = field(default_factory=dict)
    #: When it was kept last how far queries are.
    _noted: dict[str, float] = field(default_factory=dict)
    _begun: dict[tuple[str, str, int], float] = field(default_factory=dict)
    #: By site: the generation of another coordinator that it obeys, as far as that was told.
    _others: dict[str, int] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    def __post_init__(self) -> None:
        """Read what the store has."""
        store = self.tenure.store
        self._boards = {b.name: b for b in all_restored(store, self.clocks.steady())}
        self._requests = Requests.restored(store)
        self.estimates = estimates_of(store.load("estimate"))

    @property
    def boards(self) -> Mapping[str, Board]:
        """All pipelines, by name: as they are now.

        Nobody who only looks waits for who decides: what is there is replaced, never changed.
        """
        return self._boards

    def board(self, pipeline: str) -> Board:
        """Return a pipeline; raises where there is none of that name."""
        boards = self.boards
        if pipeline not in boards:
            near = nearest(pipeline, boards)
            way = f"did you mean {near}?" if near else "millrace get pipelines lists them"
            raise OperationFailed("no-pipeline", f"there is no pipeline {pipeline}", way)
        return boards[pipeline]

    def apply(
        self, brought: Submission, expected: int | None = None, request: Request | None = None
    ) -> Operation:
        """Begin to change a pipeline; returning promises that this survives a crash.

        `expected` is the revision that the change is made for; the same `request` again gives the
        same answer. A file that asks for nothing new makes no revision.
        """
        name = brought.wanted.name
        with self._lock:
            if request is not None and (known := self._requests.known(request)) is not None:
                return self.operation(known)
            before = self._boards.get(name)
            board = before or Board.empty(name)
            if expected is not None and expected != board.newest:
                raise Moved(name, expected, board.newest)
            check_lost(brought.lost, board.sites(brought.wanted))
            if board.same(brought.wanted) and board.operation is not None:
                return replace(board.operation, plan=Plan(untouched=len(board.deployment.jobs)))
            after, entries = board.submitted(brought)
            change = kept(after, before, entries)
            if request is not None and after.operation is not None:
                change += self._requests.remembered(request, after.operation.id)
            try:
                self._commit(change)
            except OperationFailed:
                if request is not None:
                    self._requests.forget(request)
                raise
            self._put(after)
        self.wake()
        return after.operation or self.operation(f"{name}.{after.newest}")

    def answered(self, request: Request) -> str | None:
        """Return the operation that answered the same request before, if one did."""
        with self._lock:
            return self._requests.known(request)

    def _commit(self, change: Change) -> None:
        try:
            self.tenure.commit(change)
        except Conflict as conflict:
            raise OperationFailed("conflict", str(conflict), transient=True) from conflict

    def proposed(self, wanted: Pipeline, lost: frozenset[str] = frozenset()) -> tuple[int, Plan]:
        """Return what a file would change, and the revision that this is about."""
        board = self.boards.get(wanted.name) or Board.empty(wanted.name)
        check_lost(lost, board.sites(wanted))
        return board.newest, board.proposed(wanted, lost)

    def take(self, board: Board) -> None:
        """Go on with a pipeline as it is given."""
        with self._lock:
            self._put(board)

    def _put(self, board: Board) -> None:
        self._boards = {**self._boards, board.name: board}

    def operation(self, identity: str) -> Operation:
        """Return an operation that is on its way, or the last one of its pipeline."""
        parts = operation_parts(identity)
        board = self.boards.get(parts[0]) if parts is not None else None
        if board is None or board.operation is None or board.operation.id != identity:
            raise OperationFailed(
                "no-operation",
                f"there is no operation {identity} any more",
                "millrace get operations lists those that are known",
            )
        return board.operation

    def heard(self, report: SiteReport) -> None:
        """Take what a site tells; that it obeys another coordinator is told of."""
        if self.roster.hear(report, self.clocks.steady()):
            self.wake()
        if report.generation > self.tenure.generation:
            self._tell_other(report.site, report.generation)

    def _tell_other(self, site: str, generation: int) -> None:
        """Tell once that a site has heard of a coordinator of a higher generation than this one.

        That this one holds its lease does not say that the other is gone: it may be up on a copy of
        this state. So nothing is raised here; a person says which one is right (decision 21).
        """
        with self._lock:
            if self._others.get(site, 0) >= generation:
                return
            own, hint = self.tenure.generation, way_above(generation)
            detail = {"obeys": generation, "generation": own, "hint": hint}
            entry = Entry(EntryKind.EVENT, f"site {site}", detail)
            try:
                self.tenure.commit(Change(entries=(entry,)))
            except Superseded:
                raise
            except OperationFailed as failure:  # no room: told with the next report
                _LOG.warning("%s", failure)
                return
            self._others[site] = generation
        self.warn(
            f"site {site} does not obey: it has heard of a coordinator of generation {generation}, "
            f"and this one is of {own}; {hint}"
        )
        self.wake()

    def goals(self) -> dict[str, SiteGoal]:
        """Return what each site that has something to do shall be."""
        found: dict[str, dict[str, PipelineGoal]] = {}
        for name, board in self.boards.items():
            for site, goal in self._goals_of(name, board).items():
                found.setdefault(site, {})[name] = goal
        generation = self.tenure.generation
        return {site: SiteGoal(generation, pipelines) for site, pipelines in found.items()}

    def _goals_of(self, name: str, board: Board) -> dict[str, PipelineGoal]:
        """What sites shall be for a pipeline; worked out again only where something is new."""
        reports = self.roster.reports(name)
        known = self._worked_out.get(name)
        if known is None or known[0] is not board or not _alike(known[1], reports):
            known = (board, reports, board.goals(reports))
            self._worked_out[name] = known
        return known[2]

    def tick(self) -> None:
        """Decide what comes next, by what was heard last; raises when all were looked at."""
        failures: list[OperationFailed] = []
        for name in self.boards:
            reports = self.roster.reports(name)
            with self._lock:
                try:
                    self._tick(self._boards[name], reports, self.clocks.steady())
                except Superseded:
                    raise
                except OperationFailed as failure:
                    failures.append(failure)
        if failures:
            raise failures[0]

    def _tick(self, board: Board, reports: Reports, now: float) -> None:
        after, entries = board.ticked(reports, now, self.patience)
        seconds = self._seconds(board, reports, now)
        after, ends = with_ends(after, reports, seconds, failures=self.failures_end)
        after = self._remembered(after, reports, now)
        if after is not board:
            self._keep(board, self._stamped(after), entries + ends)
        self._fail_over(self._boards[board.name], now)

    def _remembered(self, board: Board, reports: Reports, now: float) -> Board:
        """Keep now and then how far queries of other machines are: they may be lost any time."""
        last = self._noted.setdefault(board.name, now)
        if board.busy or now - last < NOTE_SECONDS:
            return board
        self._noted[board.name] = now
        return board.noted(reports, frozenset(filter(self.joined, board.deployment.sites())))

    def _fail_over(self, board: Board, now: float) -> None:
        """Let queries whose leases have run out start elsewhere: by a new version of the file.

        No order to run them may reach their site from then on, though it is heard of again.
        """
        if board.busy:
            return
        back = gone_back(board)
        if back is not board:
            self._keep(board, back, ())
            return
        late = self._late(board, now)
        lost = frozenset(board.deployment.jobs[name].site for name in late)
        wanted, moved = failed_over(board.file, late, self._there(board.file, now) - lost)
        if not moved:
            return
        halted = board.halted(moved)
        self._keep(board, halted, ())
        self._late_since |= {(board.name, name): now for name in moved}
        note = f"the lease of {', '.join(moved)} ran out"
        code = board.files.code(board.current)
        self.apply(Submission(wanted, FAILOVER, self.clocks.wall(), note, code, lost=lost))

    def _late(self, board: Board, now: float) -> dict[str, Job]:
        """The queries whose leases have run out, but for those that were tried just now."""
        found: dict[str, Job] = {}
        for name, placed in board.deployment.jobs.items():
            job = board.files.queries(placed.goal.revision).jobs[name]
            if job.lease is None or not placed.goal.running or not self.joined(placed.site):
                continue
            silent = now - self.roster.granted(placed.site, now)
            tried = self._late_since.get((board.name, name))
            if expired(job, silent) and (tried is None or now - tried > AGAIN_SECONDS):
                found[name] = job
        return found

    def _there(self, file: Pipeline, now: float) -> frozenset[str]:
        """The sites of a file that were heard of just now."""
        silent = {site: self.roster.silence(site, now) for site in file.sites}
        return frozenset(s for s, it in silent.items() if it is not None and it < AWAY_SECONDS)

    def _seconds(self, board: Board, reports: Reports, now: float) -> dict[str, float]:
        """For how long queries have been running that have a time of their own, as seen here."""
        found: dict[str, float] = {}
        for query, placed in board.deployment.jobs.items():
            job = board.files.queries(placed.goal.revision).jobs[query]
            if job.end.after is None or state_of(board, query, reports) is not JobState.RUNNING:
                continue
            key = (board.name, query, placed.goal.generation)
            found[query] = now - self._begun.setdefault(key, now)
        return found

    def _keep(self, before: Board, after: Board, entries: tuple[Entry, ...]) -> None:
        change, learned = kept(after, before, entries), self._learned(before, after)
        if learned != self.estimates:
            change += Change({("estimate", "steps"): asdict(learned)})
        self._commit(change)
        self._put(after)
        self.estimates = learned
        self.wake()

    def _learned(self, before: Board, after: Board) -> Estimates:
        """What steps take, after those that were measured just now."""
        old, new = before.operation, after.operation
        if new is None or old is None or new.downtime == old.downtime:
            return self.estimates
        steps = {step.id: step for step in new.plan.steps}
        found = self.estimates
        for name, took in new.downtime.items():
            if name not in old.downtime and name in steps:
                found = found.learned(steps[name], took)
        return found

    def _stamped(self, board: Board) -> Board:
        """A board on which it stands when an operation was over, and how."""
        operation = board.operation
        if operation is None or not operation.state.over:
            return board
        revision = board.revisions[operation.wanted]
        told = replace(
            revision,
            ended=max(self.clocks.wall(), revision.at),  # the clock may have been set back
            outcome=operation.state.value,
            reason=operation.reason,
        )
        return replace(board, revisions={**board.revisions, operation.wanted: told})


def _alike(one: Reports, other: Reports) -> bool:
    """Whether two reports tell the same of what other sites are told."""
    if one.keys() != other.keys():
        return False
    return all(
        a is b or (a.broker == b.broker and a.offered == b.offered and _states(a) == _states(b))
        for a, b in ((one[site], other[site]) for site in one)
    )


def _states(report: PipelineReport) -> dict[str, tuple[int, JobState]]:
    return {name: (job.generation, job.state) for name, job in report.jobs.items()}
