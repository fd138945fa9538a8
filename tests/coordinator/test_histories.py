"""Thousands of histories of changes: each is done or undone, and no query ever runs twice."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from millrace.coordinator.files import Files
from millrace.coordinator.operation import OperationState
from millrace.errors import OperationFailed
from millrace.model.pipeline import Pipeline
from millrace.plan.fuse import as_queries
from millrace.spec import FileFormat, load_text
from millrace.wire import pipeline_document
from tests.coordinator.world import Play
from tests.plan.test_plan_properties import SITES, seeded_world


@pytest.mark.parametrize("seed", range(60))
def test_changes_are_done(seed: int) -> None:
    """Without faults: a file after another, each in force before the next."""
    for play, wanted in history(seed):
        assert play.board.operation is not None
        assert play.board.operation.state is OperationState.DONE
        play.check(wanted)


def history(seed: int) -> Iterator[tuple[Play, Pipeline]]:
    """Give four files one after another, each when all was done that it asks for."""
    chance = random.Random(seed)
    play = Play(SITES, chance)
    wanted: Pipeline | None = None
    for _ in range(4):
        wanted = seeded_world(chance, wanted)
        play.submit(wanted)
        play.settle()
        yield play, wanted


def test_streams_get_new_readers_and_new_logs_in_these_histories() -> None:
    """Each of them is held to where it begins: see `witness`."""
    joined = anew = 0
    for seed in range(10):
        *_, (play, _) = history(seed)
        joined += play.witness.joined
        anew += play.witness.anew
    assert joined > 10
    assert anew > 0


def test_the_same_file_again_does_nothing() -> None:
    chance = random.Random(1)
    play = Play(SITES, chance)
    wanted = seeded_world(chance)
    play.submit(wanted)
    play.settle()
    before = [(site.actions, dict(site.running)) for site in play.world.values()]
    for _ in range(3):
        play.submit(wanted)
        play.settle()
        assert play.board.operation is not None
        assert play.board.operation.plan.empty
    assert [(site.actions, dict(site.running)) for site in play.world.values()] == before


def test_a_change_that_fails_is_undone() -> None:
    """A query can't start at its new place: what was there goes on, and nothing else is left."""
    outcomes: Counter[OperationState] = Counter()
    for seed in range(80):
        chance = random.Random(seed)
        play = Play(SITES, chance)
        first = seeded_world(chance)
        play.submit(first)
        play.settle()
        second = seeded_world(chance, first)
        starts = [
            name
            for name, job in as_queries(second).jobs.items()
            if as_queries(first).jobs.get(name) != job
        ]
        if not starts:
            continue
        name = chance.choice(starts)
        play.broken.add((second.jobs[name].site or "", name, play.board.newest + 1))
        play.submit(second)
        play.settle()
        assert play.board.operation is not None
        outcomes[play.board.operation.state] += 1
        if play.board.operation.state is OperationState.UNDONE:
            assert name in play.board.operation.reason
            play.check(first)
        else:
            play.check(second)
    assert outcomes[OperationState.UNDONE] > 20
    assert outcomes[OperationState.STUCK] == 0


def valid_world(chance: random.Random, like: Pipeline | None) -> Pipeline:
    """Return a pipeline that a store gives back as it was: one that a file may hold."""
    while True:
        made = seeded_world(chance, like)
        text = json.dumps(pipeline_document(made))
        read = load_text(text, "drawn", file_format=FileFormat.NATIVE).pipeline
        if read is not None:
            return read


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(150))
def test_faults_change_nothing_in_the_end(seed: int) -> None:
    """The coordinator ends at its commits, sites go away, agents are killed with all they run."""
    chance = random.Random(seed)
    play = Play(SITES, chance, faults=True)
    in_force = Pipeline("p")
    for _ in range(4):
        wanted = valid_world(chance, in_force if in_force.jobs else None)
        play.broken.clear()
        if chance.random() < 0.4 and wanted.jobs:
            name = chance.choice(sorted(as_queries(wanted).jobs))
            play.broken.add((wanted.jobs[name].site or "", name, play.board.newest + 1))
        newest = play.board.newest
        while play.board.newest == newest:  # a coordinator that ends before it kept it forgets it
            play.submit(wanted)
        while play.board.busy:
            play.tick()
        play.faults = False
        play.settle()
        play.faults = True
        operation = play.board.operation
        assert operation is not None
        assert operation.state in (OperationState.DONE, OperationState.UNDONE)
        in_force = wanted if operation.state is OperationState.DONE else in_force
        play.check(in_force)
    assert play.crashes > 0


def test_a_number_may_come_again_for_another_file() -> None:
    """As after a change that could not be kept: what was worked out of the first is forgotten."""
    chance = random.Random(3)
    one, other = valid_world(chance, None), valid_world(chance, None)
    files = Files().with_file(1, one)
    assert files.queries(1).jobs == as_queries(one).jobs
    assert files.world(1).pipeline is one
    again = files.with_file(1, other)
    assert again.queries(1).jobs == as_queries(other).jobs
    assert again.world(1).pipeline is other


def test_a_second_change_waits_for_the_first() -> None:
    chance = random.Random(3)
    play = Play(SITES, chance)
    play.submit(valid_world(chance, None))
    with pytest.raises(OperationFailed) as caught:
        play.submit(valid_world(chance, None))
    assert caught.value.code == "busy"
    assert caught.value.transient


def test_a_job_that_an_engine_refuses_changes_nothing() -> None:
    for seed in range(20):
        chance = random.Random(seed)
        play = Play(SITES, chance)
        first = valid_world(chance, None)
        play.submit(first)
        play.settle()
        second = valid_world(chance, first)
        queries = as_queries(second).jobs
        changed = [n for n, job in queries.items() if as_queries(first).jobs.get(n) != job]
        if not changed:
            continue
        before = play.board.deployment
        play.wrong_code.add((queries[changed[0]].site or "", changed[0], 2))
        play.submit(second)
        play.settle()
        assert play.board.operation is not None
        assert play.board.operation.state is OperationState.REFUSED
        assert "no such column" in play.board.operation.reason
        assert play.board.deployment == before
        play.check(first)
        play.wrong_code.clear()
        play.submit(second)
        play.settle()
        play.check(second)
