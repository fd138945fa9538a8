"""The reconciler under hypothesis: whatever happens in whatever order, it gets there.

A step of the machine is a new file, a fault, or up to eight rounds. A round is one of everybody:
each site is told what it shall be, does at most one thing, and not in every round, and reports;
then the coordinator decides once. Once faults stop, all must be done within fifty rounds of that
kind, those included in which nobody gets on. The count ends with the last thing that anybody did
or decided; then it must stay quiet.
"""

from __future__ import annotations

import os
import random
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from millrace.coordinator.operation import OperationState
from millrace.model.pipeline import Pipeline
from millrace.plan.fuse import as_queries
from tests.coordinator.test_histories import valid_world
from tests.coordinator.world import Play
from tests.plan.test_plan_properties import SITES

#: Steps in sum, of examples of at most fifty: hypothesis makes some of them shorter.
STEPS = int(os.environ.get("CASES", "10000"))
EXAMPLES = STEPS // 42
#: Once faults stop it may take so many rounds until all is done; so many show that it is.
ROUNDS, QUIET = 50, 15


class Reconciler(RuleBasedStateMachine):
    """A coordinator, three sites, and what can go wrong between them."""

    #: Of each example: its steps, and the rounds that it took at last.
    taken: ClassVar[list[tuple[int, int]]] = []

    def __init__(self) -> None:
        super().__init__()
        self.steps = -1  # it is also looked at before the first
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
        """An empty plan: nothing is done. It is empty, unless an undoing had to leave something."""
        self.note_end()
        exact = self.exact()
        self.play.submit(self.in_force)
        self.wanted = self.in_force
        before = self.play.board.deployment
        self.play.tick()
        operation = self.play.board.operation
        assert operation is not None
        if exact:
            assert operation.plan.empty
        if operation.plan.empty:
            assert operation.state is OperationState.DONE
            assert self.play.board.deployment == before

    def exact(self) -> bool:
        """Whether each log is as the file in force has it: one made anew stays, also if undone."""
        board, streams = self.play.board, self.in_force.streams
        there = board.deployment.streams
        return all(board.files[number].streams[name] == streams.get(name) for name, number in there)

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
        self.play.world[site].kill()

    def note_end(self) -> None:
        operation = self.play.board.operation
        if operation is not None and operation.state is OperationState.DONE:
            self.in_force = self.wanted

    @invariant()
    def nothing_is_stuck(self) -> None:
        self.steps += 1
        operation = self.play.board.operation
        assert operation is None or operation.state is not OperationState.STUCK

    def teardown(self) -> None:
        """Faults stop: the change is done or undone, all is as it shall be, and stays so."""
        for site in self.play.world.values():
            site.away = 0
        took = self.play.converge(ROUNDS, QUIET)
        self.taken.append((self.steps, took))
        self.note_end()
        self.play.check(self.in_force)
        if not self.exact():
            self.submit_the_same()
            self.play.converge(ROUNDS, QUIET)
            self.play.check(self.in_force)
        assert self.exact()
        before = self.play.actions
        self.submit_the_same()
        assert self.play.converge(1, QUIET) <= 1
        assert self.play.actions == before


@pytest.mark.timeout(300)
def test_it_gets_there_whatever_happens() -> None:
    Reconciler.taken.clear()
    run_state_machine_as_test(
        Reconciler,
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=50, suppress_health_check=list(HealthCheck)
        ),
    )
    steps, rounds = zip(*Reconciler.taken, strict=True)
    print(f"{sum(steps)} steps, then {max(rounds)} rounds at most")  # noqa: T201 - for -s
    assert sum(steps) >= STEPS
    assert max(rounds) > 10  # or there was nothing to be done in the end
