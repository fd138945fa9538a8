"""Random changes of a pipeline of ten jobs over three sites, at 2,000 records a second.

SCRIPTS and CHANGES make it longer (see `make soak`); SEED repeats it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from millrace.measure.load import Load
from tests.changes.script import Chain, script
from tests.changes.stage import Stage, stage

SEED = int(os.environ.get("SEED", "20261117"))
SCRIPTS = int(os.environ.get("SCRIPTS", "3"))
CHANGES = int(os.environ.get("CHANGES", "2"))
RATE = 2_000
JOBS = 10
#: One slow machine with everything on it.
LIMIT = 300.0
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("changes")) as found:
        yield found


def test_no_change_loses_or_repeats_or_reorders_a_record(sites: Stage) -> None:
    """Only the jobs of a change are touched: all others keep the engine's own name of their run."""
    chance = random.Random(SEED)
    chain = Chain.drawn("chain", JOBS, chance)
    assert sites.apply(chain.pipeline()).state == "done"
    for number in range(SCRIPTS):
        load = Load(rate=RATE, seconds=12 * CHANGES, keys=50, seed=number)
        checked = sites.loaded(chain.pipeline(), load, f"script-{number}")
        for change in script(chain, chance, CHANGES):
            where = f"seed {SEED}, script {number}: {change.what}"
            before = sites.runs("chain")
            done = sites.apply(change.chain.pipeline())
            assert done.state == "done", (where, done)
            after = sites.runs("chain")
            kept = before.keys() & after.keys() - change.touched
            assert {job: before[job] for job in kept} == {job: after[job] for job in kept}, where
            chain = change.chain
        report = checked.result(LIMIT)
        assert report.problems() == [], f"seed {SEED}, script {number}"
        assert report.report.read == load.count
