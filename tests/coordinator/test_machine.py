"""The reconciler under hypothesis: whatever happens in whatever order, it gets there."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from millrace.coordinator.operation import OperationState
from millrace.model.pipeline import Pipeline
from millrace.plan.fuse import as_queries
from tests.coordinator.test_histories import valid_world
from tests.coordinator.world import Play
from tests.plan.test_plan_properties import SITES

#: Examples of fifty steps each: ten thousand steps.
EXAMPLES = int(os.environ.get("CASES", "200"))
#: Once faults stop it may take so many rounds until the change is over.
ROUNDS = 400


class Reconciler(RuleBasedStateMachine):
    """A coordinator, three sites, and what can go wrong between them."""

    def __init__(self) -> None:
        super().__init__()
        self.play = Play(SITES, random.Random(0))
        self.in_force = self.wanted = Pipeline("p")

    @precondition(lambda self: not self.play.board.busy)
    @rule(seed=st.integers(0, 10**6), breaks=st.booleans())
    def submit(self, seed: int, *, breaks: bool) -> None:
        self.note_end()
        chance = random.Random(seed)
        self.wanted = valid_world(chance, self.in_force if self.in_force.jobs else None)
        self.play.broken.clear()
        if breaks and self.wanted.jobs:
            name = chance.choice(sorted(as_queries(self.wanted).jobs))
            where = self.wanted.jobs[name].site or ""
            self.play.broken.add((where, name, self.play.board.newest + 1))
        self.play.submit(self.wanted)

    @precondition(lambda self: not self.play.board.busy)
    @rule()
    def submit_the_same(self) -> None:
        """An empty plan: nothing is done."""
        self.note_end()
        self.play.submit(self.in_force)
        self.wanted = self.in_force
        before = self.play.board.deployment
        self.play.tick()
        operation = self.play.board.operation
        assert operation is not None
        assert operation.state is OperationState.DONE
        assert operation.plan.empty
        assert self.play.board.deployment == before

    @rule(times=st.integers(1, 8))
    def go_on(self, times: int) -> None:
        for _ in range(times):
            self.play.tick()

    @rule()
    def end_the_coordinator(self) -> None:
        self.play.restart()

    @rule(site=st.sampled_from(SITES), rounds=st.integers(1, 40))
    def cut_off(self, site: str, rounds: int) -> None:
        self.play.world[site].away = rounds

    @rule(site=st.sampled_from(SITES))
    def kill_the_agent(self, site: str) -> None:
        self.play.world[site].running.clear()

    def note_end(self) -> None:
        operation = self.play.board.operation
        if operation is not None and operation.state is OperationState.DONE:
            self.in_force = self.wanted

    @invariant()
    def nothing_is_stuck(self) -> None:
        operation = self.play.board.operation
        assert operation is None or operation.state is not OperationState.STUCK

    def teardown(self) -> None:
        """Faults stop: the change is done or undone, and all is as it shall be."""
        for site in self.play.world.values():
            site.away = 0
        self.play.settle(ROUNDS)
        self.note_end()
        self.play.check(self.in_force)


TestReconciler = pytest.mark.timeout(300)(Reconciler.TestCase)
TestReconciler.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=50, suppress_health_check=list(HealthCheck)
)
