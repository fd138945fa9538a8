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
from tests.faults.rig import RECOVERY, Blow, Rig, rig
from tests.memory import memory

SEED = 20_261_116
RUNS = itertools.count(1)
pytestmark = [pytest.mark.timeout(400), pytest.mark.xdist_group("faults")]


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give the checkpoints a small disk of their own, where that can be."""
    place = tmp_path_factory.mktemp("faults")
    jobs = place / "home" / "pipelines" / "faults" / "sites" / "here" / "jobs"
    jobs.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(jobs)]
    done = subprocess.run(mount, capture_output=True, timeout=30, check=False)
    yield jobs
    if done.returncode == 0:
        subprocess.run(["umount", "-l", str(jobs)], timeout=30, check=True)


@pytest.fixture(scope="module")
def running(disk: Path) -> Iterator[Rig]:
    with rig(disk.parents[5]) as found:
        yield found


def checked(running: Rig, seconds: int, *blows_at: tuple[float, float, Blow]) -> None:
    """Let faults fall within spans of a load, at seeded moments: all arrives, and once."""
    load = Load(rate=2_000, seconds=seconds, keys=100, size=200, seed=1)
    chosen = random.Random(f"{SEED} {[blow.__name__ for *_, blow in blows_at]}")
    moments = [(chosen.uniform(first, last), blow) for first, last, blow in blows_at]
    before = batches(running)
    report = running.checked(load, f"run-{next(RUNS)}", *moments)
    assert report.problems() == []
    assert report.report.read == load.rate * load.seconds
    # Else a slow machine's jobs get nowhere between blows, and are set apart for it.
    running.work(lambda: all(n > before[job] for job, n in batches(running).items()), RECOVERY)


def batches(running: Rig) -> dict[str, int]:
    """The last batch that each job has committed."""
    return {name: found.progress.batch for name, found in running.runner.statuses().items()}


def test_kills_of_the_driver(running: Rig) -> None:
    checked(running, 18, (2, 4, blows.kill_driver), (12, 15, blows.kill_driver))


def test_kills_of_the_broker(running: Rig) -> None:
    checked(running, 13, (2, 4, blows.kill_broker), (8, 11, blows.kill_broker))


def test_a_frozen_driver_and_a_planned_stop(running: Rig) -> None:
    checked(running, 16, (2, 3, blows.freeze_driver), (8, 10, blows.stop_and_start))


def test_malformed_records_harm_nobody(running: Rig) -> None:
    count = 100_000
    before = running.held("dead")
    garbage = blows.among_garbage(SEED, count // 2)
    checked(running, 8, (2, 2, garbage))
    running.work(lambda: running.held("dead") - before >= count // 2, RECOVERY)
    warm = memory(running.driver_pid)
    running.broker.log.write("in", blows.garbage(SEED + 1, count // 2))
    running.work(lambda: running.held("dead") - before >= count, RECOVERY)
    assert running.held("dead") - before == count
    assert memory(running.driver_pid) < 1.2 * warm


def test_a_full_disk_is_told_and_got_over(running: Rig, disk: Path) -> None:
    if not disk.is_mount():
        pytest.skip("a small disk can't be made here")
    checked(running, 9, (3, 3, lambda found: _full(found, disk)))
    assert [text for text in running.said if "make room" in text], running.said


def _full(running: Rig, jobs: Path) -> Fault:
    now, ballast, before = time.time(), blows.fill(jobs), len(running.said)
    running.work(lambda: any("make room" in text for text in running.said[before:]), RECOVERY)
    ballast.unlink()
    return Fault("disk full", now, running.said[-1])
