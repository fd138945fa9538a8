"""Faults at seeded moments, again and again, on a pipeline at 2,000 records a second."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.measure.fault import Fault
from millrace.measure.load import Load
from tests.faults import blows
from tests.faults.rig import RECOVERY, Rig, rig

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


def _checked(running: Rig, blow: blows.Blow, number: int) -> None:
    name = blow.__name__
    report = running.checked(LOAD, f"{name}-{number}", lambda: blow(running), _moment(name, number))
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / f"{name}-{number}.json").write_text(json.dumps(report.document(), indent=1))
    assert report.problems() == []


@pytest.mark.parametrize("number", range(KILLS))
@pytest.mark.parametrize("blow", [blows.kill_driver, blows.kill_broker])
def test_kills(running: Rig, blow: blows.Blow, number: int) -> None:
    _checked(running, blow, number)


@pytest.mark.parametrize("number", range(STOPS))
def test_planned_stops(running: Rig, number: int) -> None:
    _checked(running, blows.stop_and_start, number)


def test_malformed_records_harm_nobody(running: Rig) -> None:
    count = 100_000
    log = running.broker.log
    before = sum(span.end for span in log.ends("dead").values())
    report = running.checked(LOAD, "malformed", lambda: _garbage(running, count), 2)
    assert report.problems() == []
    running.work(lambda: _ends(running, "dead") - before >= count, RECOVERY)
    assert _ends(running, "dead") - before == count
    warm = blows.memory(running)
    log.write("in", blows.garbage(SEED + 1, count))
    running.work(lambda: _ends(running, "dead") - before >= 2 * count, RECOVERY)
    assert blows.memory(running) < 1.2 * warm


def _garbage(running: Rig, count: int) -> Fault:
    log = running.broker.log
    sending = threading.Thread(target=log.write, args=("in", blows.garbage(SEED, count)))
    now = time.time()
    sending.start()
    running.work(lambda: not sending.is_alive(), RECOVERY)
    return Fault("malformed records", now, f"{count} written among the good ones")


def _ends(running: Rig, stream: str) -> int:
    return sum(span.end for span in running.broker.log.ends(stream).values())


def test_a_million_malformed_records(running: Rig) -> None:
    count = 1_000_000
    log = running.broker.log

    def dead() -> int:
        return sum(span.end for span in log.ends("dead").values())

    before = dead()
    log.write("in", blows.garbage(SEED, count // 10))
    running.work(lambda: dead() - before >= count // 10, 600)
    warm = blows.memory(running)
    for part in range(9):
        log.write("in", blows.garbage(SEED + part + 1, count // 10))
    running.work(lambda: dead() - before >= count, 600)
    assert dead() - before == count
    assert blows.memory(running) < 1.2 * warm
