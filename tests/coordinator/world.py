"""Sites as a coordinator sees them, in their own time: slow, away for a while, back again."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millrace.coordinator.board import Board
from millrace.coordinator.files import Files
from millrace.coordinator.kept import kept, restored
from millrace.coordinator.revision import Submission
from millrace.model.job import Job, Mode
from millrace.model.pipeline import Pipeline
from millrace.model.places import Key, World
from millrace.model.status import JobFacts
from millrace.plan.fuse import as_queries
from millrace.ports import Entry, JobState, Progress
from millrace.ports.link import JobReport, PipelineGoal, PipelineReport, Thing
from millrace.testing.memory_store import MemoryStore
from tests.coordinator.witness import FakeLog, Witness

PATIENCE = 200.0


@dataclass(slots=True)
class FakeSite:
    """A site whose agent does one thing at a time, and not always at once."""

    name: str
    all_sites: dict[str, FakeSite]
    #: Queries that can't start here, by name and file.
    broken: set[tuple[str, str, int]]
    #: The same of those that engines refuse when they look at them.
    wrong_code: set[tuple[str, str, int]]
    goal: PipelineGoal = field(default_factory=PipelineGoal)
    running: dict[str, int] = field(default_factory=dict)
    #: What the queries that run are, and where the streams are that they use.
    jobs: dict[str, Job] = field(default_factory=dict)
    used: dict[str, set[Key]] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    highest: dict[str, int] = field(default_factory=dict)
    serving: bool = False
    logs: dict[Key, FakeLog] = field(default_factory=dict)
    witness: Witness = field(default_factory=Witness)
    #: Where streams ended when that was asked, with the number of the file.
    ends: dict[tuple[int | None, Thing], dict[int, int]] = field(default_factory=dict)
    starts: int = 0
    actions: int = 0
    away: int = 0
    #: Whether its agent has heard of the pipeline: of others it reports nothing.
    knows: bool = False
    known: Files = field(default_factory=Files)

    def tell(self, goal: PipelineGoal) -> None:
        self.knows = True
        self.goal = goal
        self.ends = {key: at for key, at in self.ends.items() if key[0] == goal.joined}
        for number, file in goal.revisions.items():
            if number not in self.known:
                self.known = self.known.with_file(number, file)

    def kill(self) -> None:
        """Its agent ends with all that it ran, and another one begins: it knows nothing by heart.

        What is on its disk stays: streams, what it was told last, and the generations that it saw.
        """
        self.running.clear()
        self.failed.clear()
        self.ends.clear()
        self.serving = self.knows = False

    def act(self, chance: random.Random) -> None:
        """Do one of the things that are not as they shall be."""
        todo = self._todo()
        if todo:
            self.actions += 1
            kind, what = chance.choice(sorted(todo, key=str))
            getattr(self, f"_{kind}")(what)

    def _todo(self) -> list[tuple[str, Any]]:
        todo: list[tuple[str, Any]] = []
        todo += [("broker", "")] if self.serving != (self.goal.serving is not None) else []
        todo += [("job", name) for name in self.running if self.wrong(name)]
        if self.goal.serving is not None and not self.serving:
            return todo  # all else comes when the broker serves
        todo += [
            ("ensure", thing) for thing in self.goal.streams if self.key(thing) not in self.logs
        ]
        todo += [("drop", thing) for thing in self.goal.dropped if self.key(thing) in self.logs]
        todo += [
            ("measure", thing)
            for thing in self.goal.measured
            if self.key(thing) in self.logs and (self.goal.joined, thing) not in self.ends
        ]
        starts = self.goal.jobs.keys() - self.running.keys()
        return todo + [("job", name) for name in starts if self.wrong(name)]

    def key(self, thing: Thing) -> Key:
        return self.known.key(thing)

    def wrong(self, name: str) -> bool:
        goal = self.goal.jobs.get(name)
        if goal is None or not goal.running:
            return name in self.running
        if goal.generation < self.highest.get(name, 0) or self.failed.get(name) == goal.generation:
            return False
        return self.running.get(name) != goal.generation

    def _broker(self, _: str) -> None:
        self.serving = self.goal.serving is not None

    def _ensure(self, thing: Thing) -> None:
        assert self.serving, f"{thing} at {self.name}, whose broker is not there"
        self.logs.setdefault(self.key(thing), FakeLog())

    def _measure(self, thing: Thing) -> None:
        self.ends[self.goal.joined, thing] = self.logs[self.key(thing)].ends

    def _drop(self, thing: Thing) -> None:
        key = self.key(thing)
        for site in self.all_sites.values():
            for name in site.running:
                assert key not in site.used[name], f"{thing} is removed while {name} uses it"
        self.logs.pop(key, None)

    def _job(self, name: str) -> None:
        if name in self.running:
            del self.running[name]
            return
        goal = self.goal.jobs[name]
        self.highest[name] = goal.generation
        if (self.name, name, goal.revision) in self.broken:
            self.failed[name] = goal.generation
            return
        there = {key: log for site in self.all_sites.values() for key, log in site.logs.items()}
        job = self.known.queries(goal.revision).jobs[name]
        used = {self.key((stream, goal.revision)) for stream in (*job.reads, *job.writes)}
        assert used <= there.keys(), f"{name} starts without {used - there.keys()}"
        self.witness.check(self.known[goal.revision], job, goal, there)
        others = [site.name for site in self.all_sites.values() if name in site.running]
        assert not others, f"{name} runs at {others} and starts at {self.name}"
        self.running[name] = goal.generation
        self.used[name] = used
        self.jobs[name] = job
        self.starts += 1

    def report(self) -> PipelineReport:
        return PipelineReport(
            "here" if self.serving else None,
            frozenset(thing for thing in self.goal.streams if self.key(thing) in self.logs),
            frozenset(thing for thing in self.goal.dropped if self.key(thing) not in self.logs),
            {name: self._reported(name) for name in self.goal.jobs},
            {},
            *self._examined(),
            joined=self.goal.joined,
            ends={thing: at for (_, thing), at in self.ends.items() if thing in self.goal.measured},
        )

    def _examined(self) -> tuple[int | None, dict[str, JobFacts], dict[str, str]]:
        """What its engines say of the queries that it is asked about."""
        number = self.goal.examined
        if number is None:
            return None, {}, {}
        facts: dict[str, JobFacts] = {}
        for name in self.goal.queries:
            job = self.known.queries(number).jobs[name]
            for one in job.members or (job,):
                stateful = one.window is not None
                facts[one.name] = JobFacts(Mode.MICRO_BATCH, (), {}, ("Project",), stateful)
        wrong = {(self.name, name, number) for name in self.goal.queries} & self.wrong_code
        refused = {name: f"job {name}: no such column" for _, name, _ in wrong}
        return number, {n: f for n, f in facts.items() if n not in refused}, refused

    def _reported(self, name: str) -> JobReport:
        goal = self.goal.jobs[name]
        if name in self.running:
            progress = Progress(batch=self.running[name])
            return JobReport(
                self.running[name], JobState.RUNNING, progress=progress, running=goal.running
            )
        if goal.running and self.failed.get(name) == goal.generation:
            return JobReport(goal.generation, JobState.FAILED, error="bad", transient=False)
        if goal.running:
            return JobReport(goal.generation, JobState.STARTING)
        return JobReport(goal.generation, JobState.STOPPED, running=False)


@dataclass(slots=True)
class Play:
    """A coordinator and its sites; it may end at any moment and begin again from its store."""

    sites: tuple[str, ...]
    chance: random.Random
    faults: bool = False
    store: MemoryStore = field(default_factory=MemoryStore)
    board: Board = field(default_factory=lambda: Board.empty("p"))
    world: dict[str, FakeSite] = field(default_factory=dict)
    broken: set[tuple[str, str, int]] = field(default_factory=set)
    wrong_code: set[tuple[str, str, int]] = field(default_factory=set)
    now: float = 0.0
    crashes: int = 0
    heard: dict[str, PipelineReport] = field(default_factory=dict)
    witness: Witness = field(default_factory=Witness)

    def __post_init__(self) -> None:
        for name in self.sites:
            self.world[name] = FakeSite(
                name, self.world, self.broken, self.wrong_code, witness=self.witness
            )
        self.store.commit(kept(self.board, None))

    @property
    def actions(self) -> int:
        """How many things were done so far, at all sites."""
        return sum(site.actions for site in self.world.values())

    def submit(self, wanted: Pipeline) -> None:
        if not self.board.busy:
            logs = {key: log for site in self.world.values() for key, log in site.logs.items()}
            self.witness.note(self.board, logs)
        self._commit(*self.board.submitted(Submission(wanted, state_loss=True)))

    def _commit(self, board: Board, entries: tuple[Entry, ...]) -> None:
        """Keep a change; a coordinator that ends just before or after begins again."""
        fate = self.chance.random() if self.faults else 1.0
        if fate >= 0.1:
            self.store.commit(kept(board, self.board, entries))
            self.board = board
        if fate < 0.2:
            self.crashes += 1
            self.restart()

    def restart(self) -> None:
        """The coordinator ends, and another one begins: it has heard of no site yet."""
        self.board = restored(self.store, "p", self.now)
        self.heard = {}

    def tick(self) -> None:
        self.now += 1
        reports: dict[str, PipelineReport] = {}
        goals: Mapping[str, PipelineGoal] = self.board.goals(self.heard)
        for site in self.world.values():
            for log in site.logs.values():
                log.records += 1
            if self.faults and self.chance.random() < 0.02:
                site.away = self.chance.randrange(1, 30)
            site.away = max(site.away - 1, 0)
            if not site.away and (site.knows or site.name in goals):
                site.tell(goals.get(site.name, PipelineGoal()))
                reports[site.name] = site.report()
            if self.faults and self.chance.random() < 0.01:
                site.kill()
            if self.chance.random() < 0.7:
                site.act(self.chance)
        self.heard = {**self.heard, **reports}
        board, entries = self.board.ticked(self.heard, self.now, PATIENCE)
        if board is not self.board:
            self._commit(board, entries)

    def settle(self, most: int = 3000) -> None:
        """Go on until the change is over and nothing happens any more."""
        quiet = 0
        for _ in range(most):
            before = self.actions
            self.tick()
            acted = self.actions != before
            quiet = 0 if acted or self.board.busy else quiet + 1
            if quiet > 40:
                return
        raise AssertionError(f"not settled: {self.board.operation}")

    def converge(self, most: int, quiet: int) -> int:
        """Return after how many rounds nothing was done or decided any more; fails if too many.

        A round is one of all: sites are told, act and report, and the coordinator decides. That it
        is over is seen by so many quiet rounds behind it, which are no longer counted.
        """
        last = count = 0
        while count - last < quiet:
            count += 1
            before = self.board, self.actions
            self.tick()
            if self.board is not before[0] or self.actions != before[1]:
                last = count
            assert last <= most, f"not settled: {self.board.operation}"
        assert not self.board.busy, f"nothing happens any more: {self.board.operation}"
        return last

    def check(self, wanted: Pipeline) -> None:
        """All is as the file says, and nothing else is there."""
        queries = as_queries(wanted)
        running = {(name, site.name) for site in self.world.values() for name in site.running}
        assert running == {(name, job.site or "") for name, job in queries.jobs.items()}
        for site in self.world.values():
            for name in site.running:
                assert site.jobs[name] == queries.jobs[name]
        there = {key for site in self.world.values() for key in site.logs}
        keys = {World(wanted).stream_key(name) for name in queries.streams}
        assert there == keys, (there - keys, keys - there)
