"""Faults at seeded moments, again and again, on a pipeline at 2,000 records a second."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.measure.load import Load
from tests.faults import blows
from tests.faults.rig import Blow, Rig, rig
from tests.memory import memory

SEED = int(os.environ.get("SEED", "1"))
KILLS = int(os.environ.get("KILLS", "10"))
STOPS = int(os.environ.get("STOPS", "20"))
LOAD = Load(rate=2_000, seconds=15, keys=100, size=200, seed=SEED)
REPORTS = Path("build") / "soak"
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(tmp_path_factory.mktemp("soak")) as found:
        yield found


def _moment(name: str, number: int) -> float:
    return random.Random(f"{SEED} {name} {number}").uniform(3, LOAD.seconds - 3)


def _checked(running: Rig, blow: Blow, number: int) -> None:
    name = blow.__name__
    report = running.checked(LOAD, f"{name}-{number}", (_moment(name, number), blow))
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / f"{name}-{number}.json").write_text(json.dumps(report.document(), indent=1))
    assert report.problems() == []


@pytest.mark.parametrize("number", range(KILLS))
@pytest.mark.parametrize("blow", [blows.kill_driver, blows.kill_broker])
def test_kills(running: Rig, blow: Blow, number: int) -> None:
    _checked(running, blow, number)


@pytest.mark.parametrize("number", range(STOPS))
def test_planned_stops(running: Rig, number: int) -> None:
    _checked(running, blows.stop_and_start, number)


def test_a_million_malformed_records(running: Rig) -> None:
    count = 1_000_000
    log = running.broker.log

    def dead() -> int:
        return running.held("dead")

    before = dead()
    log.write("in", blows.garbage(SEED, count // 10))
    running.work(lambda: dead() - before >= count // 10, 600)
    warm = memory(running.driver_pid)
    for part in range(9):
        log.write("in", blows.garbage(SEED + part + 1, count // 10))
    running.work(lambda: dead() - before >= count, 600)
    assert dead() - before == count
    assert memory(running.driver_pid) < 1.2 * warm
