"""Sites that are lost, by a user's word or because a lease ran out, on the shipped fakes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from millrace.agent.agent import Agent
from millrace.coordinator.failover import GRACE_SECONDS
from millrace.coordinator.operation import Operation, OperationState
from millrace.coordinator.revision import Submission
from millrace.coordinator.service import Clocks, Coordinator
from millrace.coordinator.tenure import Around, Holder, take
from millrace.errors import OperationFailed
from millrace.model.impact import Impact
from millrace.model.pipeline import Pipeline
from millrace.ports import JobState
from millrace.ports.link import SiteGoal
from millrace.spec import load_text
from millrace.testing.memory_store import MemoryStore
from millrace.testing.workshop import FakeWorkshop

TEXT = """
pipeline: p
sites: {hub: {broker: kafka}, north: {}, south: {}}
streams: {raw: {site: hub, schema: {n: int, at: timestamp}}, out: {site: hub}}
jobs: {copy: {site: SITE, from: raw, to: out, MORE}}
"""
PLAIN = "sql: SELECT n FROM raw"
WINDOW = "window: {of: 1 s, by: at}, aggregate: {n: count(*)}"
LIMIT = 20.0


def copying(site: str, more: str = PLAIN) -> Pipeline:
    return load_text(TEXT.replace("SITE", site).replace("MORE", more)).required()


@dataclass
class Land:
    """A coordinator over three sites with an agent each; a site may be cut off."""

    place: Path
    now: float = 1000.0
    cut: set[str] = field(default_factory=set)
    shops: dict[str, FakeWorkshop] = field(default_factory=dict)
    agents: dict[str, Agent] = field(default_factory=dict)
    goals: dict[str, SiteGoal] = field(default_factory=dict)
    #: When each agent was told last that what it was told holds.
    renewed: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        around = Around(lambda _: False, time.monotonic, time.sleep)
        tenure = take(MemoryStore(), Holder("here", 1, 0.0), around)
        clocks = Clocks(lambda: self.now, lambda: self.now)
        self.coordinator = Coordinator(tenure, clocks, joined=lambda site: site != "hub")
        for site in ("hub", "north", "south"):
            self.shops[site] = FakeWorkshop(site, self.place)
            self.agents[site] = self._agent(site)

    def _agent(self, site: str) -> Agent:
        return Agent(
            lambda _, __: self.shops[site],
            lambda pipeline, _: self.place / site / pipeline,
            unheard=lambda: self.now - self.renewed.get(site, self.now),
        )

    def round(self) -> None:
        goals = self.coordinator.goals()
        for site, agent in self.agents.items():
            if site not in self.cut:
                self.goals[site] = goals.get(site, SiteGoal(1))
                self.renewed[site] = self.now
                self.coordinator.roster.grant(site, self.now)
            for report in agent.exchange({site: self.goals.get(site, SiteGoal(1))}).values():
                if site not in self.cut:
                    self.coordinator.heard(report)
        self.coordinator.tick()
        time.sleep(0.001)

    def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + LIMIT
        while not holds():
            assert time.monotonic() < end, self.coordinator.boards
            self.round()

    def apply(self, submission: Submission) -> Operation:
        begun = self.coordinator.apply(submission)
        self.until(lambda: self.coordinator.operation(begun.id).state.over)
        return self.coordinator.operation(begun.id)

    def runs(self, site: str) -> bool:
        job = self.shops[site].spark.jobs.get("copy")
        return job is not None and job.state is JobState.RUNNING

    def commits(self, site: str, position: int) -> None:
        """Let the job report that it has committed so much."""
        spark = self.shops[site].spark
        known = spark.jobs["copy"]
        progress = replace(known.progress, positions={"raw": {0: position}}, at=5.0)
        spark.jobs["copy"] = replace(known, progress=progress)
        self.round()

    def goal(self) -> object:
        return self.coordinator.board("p").deployment.jobs["copy"].goal

    def close(self) -> None:
        for agent in self.agents.values():
            agent.close()


@pytest.fixture
def land(tmp_path: Path) -> Iterator[Land]:
    made = Land(tmp_path)
    yield made
    made.close()


def test_a_job_leaves_a_silent_site_only_by_a_users_word(land: Land) -> None:
    """Without it the change waits, is undone, and the job is where it was."""
    land.coordinator.patience = 30.0
    assert land.apply(Submission(copying("north"))).state is OperationState.DONE
    land.cut.add("north")
    begun = land.coordinator.apply(Submission(copying("south")))
    for _ in range(20):
        land.round()
    assert not land.coordinator.operation(begun.id).state.over
    assert not land.runs("south")
    land.now += 31
    land.until(lambda: land.coordinator.operation(begun.id).state.over)
    undone = land.coordinator.operation(begun.id)
    assert undone.state is OperationState.UNDONE
    assert "site north did not do it in time" in undone.reason
    assert "--site-lost north" in undone.reason
    assert land.runs("north")
    assert not land.runs("south")


def test_a_site_that_nobody_knows_can_not_be_lost(land: Land) -> None:
    lost = frozenset({"nroth"})
    for use in (
        lambda: land.coordinator.apply(Submission(copying("south"), lost=lost)),
        lambda: land.coordinator.proposed(copying("south"), lost),
    ):
        with pytest.raises(OperationFailed) as caught:
            use()
        assert (caught.value.code, caught.value.hint) == (
            "unknown-site", "name one of hub, north, south"
        )  # fmt: skip


def test_a_lost_sites_job_goes_on_from_the_positions_that_were_reported_last(land: Land) -> None:
    land.apply(Submission(copying("north")))
    land.commits("north", 7)
    land.cut.add("north")
    done = land.apply(Submission(copying("south"), lost=frozenset({"north"})))
    assert done.state is OperationState.DONE
    [step] = done.plan.steps
    assert any("north is lost" in reason.text for reason in step.reasons)
    assert land.runs("south")
    goal = land.coordinator.board("p").deployment.jobs["copy"].goal
    assert (goal.begins, goal.brought) == ({"raw": {0: 7}}, None)


def test_state_that_is_lost_with_a_site_must_be_given_up_by_a_word(land: Land) -> None:
    land.apply(Submission(copying("north", WINDOW)))
    land.cut.add("north")
    lost = frozenset({"north"})
    refused = land.apply(Submission(copying("south", WINDOW), lost=lost))
    assert refused.state is OperationState.REFUSED
    assert "--allow-state-loss" in refused.reason
    assert not land.runs("south")
    done = land.apply(Submission(copying("south", WINDOW), lost=lost, state_loss=True))
    assert done.state is OperationState.DONE
    assert [step.impact for step in done.plan.steps] == [Impact.STATE_LOST]


def test_a_shared_checkpoint_survives_the_loss(land: Land) -> None:
    shared = f"{WINDOW}, checkpoint: {{at: shared}}"
    land.apply(Submission(copying("north", shared)))
    before = land.coordinator.board("p").deployment.jobs["copy"].goal
    land.cut.add("north")
    done = land.apply(Submission(copying("south", shared), lost=frozenset({"north"})))
    assert done.state is OperationState.DONE
    goal = land.coordinator.board("p").deployment.jobs["copy"].goal
    assert (goal.folder, goal.vouched, goal.brought) == (before.folder, True, None)


LEASED = f"{PLAIN}, failover: 5 min"


def test_a_job_under_a_lease_stops_there_before_it_starts_elsewhere(land: Land) -> None:
    land.apply(Submission(copying("north", LEASED)))
    land.cut.add("north")
    land.now += 299
    for _ in range(10):
        land.round()
    assert land.runs("north")
    land.now += 2
    land.until(lambda: not land.runs("north"))
    for _ in range(10):
        land.round()
    assert not any(land.runs(site) for site in land.shops)
    land.now += GRACE_SECONDS
    land.until(lambda: land.runs("hub") or land.runs("south"))
    assert not land.runs("north")
    board = land.coordinator.board("p")
    assert board.revisions[board.newest].by == "failover"
    assert "the lease of copy ran out" in board.revisions[board.newest].note


def test_an_agent_that_is_back_does_not_start_what_went_elsewhere(land: Land) -> None:
    land.apply(Submission(copying("north", LEASED)))
    land.cut.add("north")
    land.now += 302 + GRACE_SECONDS
    land.until(lambda: land.runs("hub") or land.runs("south"))
    land.until(lambda: not land.coordinator.board("p").busy)
    starts = land.shops["north"].spark.starts
    land.cut.clear()
    for _ in range(20):
        land.round()
    assert not land.runs("north")
    assert land.shops["north"].spark.starts == starts


def test_a_lease_that_is_renewed_in_time_changes_nothing(land: Land) -> None:
    land.apply(Submission(copying("north", LEASED)))
    starts = land.shops["north"].spark.starts
    for _ in range(10):
        land.cut.add("north")
        land.now += 200
        land.round()
        land.cut.clear()
        land.round()
    assert land.runs("north")
    assert land.shops["north"].spark.starts == starts
    assert land.coordinator.board("p").newest == 1


def test_a_job_without_a_lease_runs_on_without_limit(land: Land) -> None:
    land.apply(Submission(copying("north")))
    land.cut.add("north")
    land.now += 10**6
    for _ in range(20):
        land.round()
    assert land.runs("north")
    assert land.coordinator.board("p").newest == 1
