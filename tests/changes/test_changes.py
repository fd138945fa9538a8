"""Random changes of a pipeline of ten jobs over three sites, at 2,000 records a second.

SCRIPTS and CHANGES make it longer (see `make soak`); SEED repeats it.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.measure.fault import Fault, RunReport
from millrace.measure.load import Load
from tests.changes.script import Chain, Changed, script
from tests.changes.stage import Stage, stage

SEED = int(os.environ.get("SEED", "20261117"))
SCRIPTS = int(os.environ.get("SCRIPTS", "3"))
CHANGES = int(os.environ.get("CHANGES", "2"))
RATE = 2_000
JOBS = 10
#: One slow machine with everything on it.
LIMIT = 300.0
KEPT = Path(__file__).parents[2] / "build" / "changes"
pytestmark = pytest.mark.timeout(600 + 150 * SCRIPTS * CHANGES)


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("changes")) as found:
        yield found


def test_no_change_loses_or_repeats_or_reorders_a_record(sites: Stage) -> None:
    """Only the jobs of a change are touched: all others keep the engine's own name of their run.

    The checker's report of each script, with the time of each change, is kept in build/changes.
    """
    chance = random.Random(SEED)
    chain = Chain.drawn("chain", JOBS, chance)
    assert sites.apply(chain.pipeline()).state == "done"
    for number in range(SCRIPTS):
        over = threading.Event()
        load = Load(rate=RATE, seconds=LIMIT * CHANGES, keys=50, seed=number)
        checked = sites.loaded(chain.pipeline(), load, f"script-{number}", over.is_set)
        changes = []
        try:
            for change in script(chain, chance, CHANGES):
                sites.await_load(chain.pipeline(), RATE)
                changes.append(changed(sites, change, f"seed {SEED}, script {number}"))
                chain = change.chain
        finally:
            over.set()
        report = replace(checked.result(LIMIT), faults=tuple(changes))
        keep(report, f"seed-{SEED}-script-{number}")
        assert report.problems() == [], f"seed {SEED}, script {number}"


def changed(sites: Stage, change: Changed, where: str) -> Fault:
    """Make a change under load; returns when it began, and what it did."""
    begun, before = time.time(), sites.runs("chain")
    sent = sites.sent(change.chain.pipeline())
    done = sites.apply(change.chain.pipeline())
    assert done.state == "done", (where, change.what, done)
    assert sites.sent(change.chain.pipeline()) > sent, (where, change.what, "no load")
    after = sites.runs("chain")
    kept = before.keys() & after.keys() - change.touched
    same = {job: before[job] for job in kept} == {job: after[job] for job in kept}
    assert same, (where, change.what, before, after)
    steps = ", ".join(step.id for step in done.steps)
    return Fault(change.what, begun, f"{steps}: {time.time() - begun:.1f} s")


def keep(report: RunReport, name: str) -> None:
    """Write a report where people look for it."""
    file = KEPT / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(report.document(), indent=1) + "\n")
