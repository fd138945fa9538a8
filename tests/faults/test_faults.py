"""Nothing is lost or repeated while faults fall on a pipeline at 2,000 records a second."""

from __future__ import annotations

import itertools
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.measure.fault import Fault
from millrace.measure.load import Load
from tests.faults import blows
from tests.faults.rig import RECOVERY, Rig, rig

SEED = 20_261_116
LOAD = Load(rate=2_000, seconds=9, keys=100, size=200, seed=1)
RUNS = itertools.count(1)
pytestmark = [pytest.mark.timeout(400), pytest.mark.xdist_group("faults")]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(tmp_path_factory.mktemp("faults")) as found:
        yield found


@pytest.mark.parametrize(
    "blow", [blows.kill_driver, blows.kill_broker, blows.freeze_driver, blows.stop_and_start]
)
def test_faults_lose_and_repeat_nothing(running: Rig, blow: blows.Blow) -> None:
    moment = random.Random(f"{SEED} {blow.__name__}").uniform(3, LOAD.seconds - 3)
    report = running.checked(LOAD, f"run-{next(RUNS)}", lambda: blow(running), moment)
    assert report.problems() == []
    assert report.report.read == LOAD.rate * LOAD.seconds


@pytest.mark.needs("mount")
def test_a_full_disk_is_told_and_got_over(tmp_path: Path) -> None:
    jobs = tmp_path / "home" / "pipelines" / "faults" / "sites" / "here" / "jobs"
    jobs.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(jobs)]
    done = subprocess.run(mount, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        pytest.skip(f"a small disk can't be made here: {done.stderr.strip()}")
    try:
        with rig(tmp_path) as running:
            report = running.checked(LOAD, "full", lambda: _full(running, jobs), 3)
            assert report.problems() == []
            told = [text for text in running.said if "make room" in text]
            assert told, running.said
    finally:
        subprocess.run(["umount", "-l", str(jobs)], timeout=30, check=True)


def _full(running: Rig, jobs: Path) -> Fault:
    now, ballast = time.time(), blows.fill(jobs)
    running.work(lambda: any("make room" in text for text in running.said), RECOVERY)
    ballast.unlink()
    return Fault("disk full", now, running.said[-1])
