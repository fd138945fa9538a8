"""The wall clock jumps: no lease is lost, nothing is given up, and no time is less than none."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from millrace.agent.agent import Agent
from millrace.agent.watch import Watch
from millrace.coordinator.home import _alive, holder
from millrace.coordinator.operation import OperationState
from millrace.coordinator.revision import Submission
from millrace.coordinator.rounds import Bell, Rounds
from millrace.coordinator.service import Clocks, Coordinator
from millrace.coordinator.tenure import Around, take
from millrace.errors import OperationFailed
from millrace.machine.process import started_at
from millrace.model.pipeline import Pipeline
from millrace.plan.fuse import as_queries
from millrace.ports import JobState, JobStatus, Log, Progress, Record
from millrace.spec import load_text
from millrace.stores.sqlite import SqliteStore
from millrace.testing.fakes import FakeBroker
from millrace.testing.workshop import FakeWorkshop
from tests.coordinator.town import FILE, MORE

HOUR = 3600.0


@dataclass
class Wall:
    """A clock that somebody sets, in seconds since the epoch."""

    offset: float = 0.0
    real: Callable[[], float] = time.time

    def __call__(self) -> float:
        return self.real() + self.offset


@dataclass
class Rig:
    """A coordinator of fakes on a clock that jumps."""

    rounds: Rounds
    wall: Wall
    file: Path

    def apply(self, wanted: Pipeline, jumps: list[float]) -> None:
        """Apply a file; the clock jumps between rounds."""
        coordinator = self.rounds.coordinator
        begun = coordinator.apply(Submission(wanted, at=self.wall()))
        until = time.monotonic() + 20
        while not (found := coordinator.operation(begun.id)).state.over:
            assert time.monotonic() < until, found
            self.wall.offset = jumps.pop(0) if jumps else self.wall.offset
            self.rounds.round()
            coordinator.tenure.beat()
            time.sleep(0.005)
        assert found.state is OperationState.DONE, found.reason
        assert all(took >= 0 for took in found.downtime.values())


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    shop, wall, file = FakeWorkshop("here", tmp_path), Wall(), tmp_path / "state.db"
    agent = Agent(lambda _, __: shop, lambda _, __: tmp_path)
    store = SqliteStore(file, clock=wall)
    tenure = take(store, holder(), Around(_alive, time.monotonic, time.sleep))
    made = Coordinator(tenure, Clocks(wall, time.monotonic), patience=15)
    rounds = Rounds(made, agent, Bell(), lambda _, goal: goal, lambda _, __: True, lambda: None)
    yield Rig(rounds, wall, file)
    agent.close()
    store.close()


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_change_goes_on_over_a_jump(rig: Rig, jump: float) -> None:
    rig.apply(load_text(FILE.replace("SITE", "here")).required(), [0.0, jump])
    rig.apply(load_text(FILE.replace("SITE", "here") + MORE).required(), [0.0, jump * 2, 0.0])
    revisions = rig.rounds.coordinator.board("roads").revisions.values()
    assert len(revisions) == 2
    for revision in revisions:
        assert revision.ended is not None
        assert revision.ended >= revision.at


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 2.0, -2.0])
def test_no_lease_is_lost_by_a_jump(rig: Rig, jump: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another coordinator looks whether the holder lives after the clock was set."""
    rig.apply(load_text(FILE.replace("SITE", "here")).required(), [])
    before, booted = started_at(os.getpid()), psutil.boot_time()
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: booted + jump)
    rig.wall.offset = jump
    assert started_at(os.getpid()) == before
    tenure, other = rig.rounds.coordinator.tenure, SqliteStore(rig.file)

    def sleep(seconds: float) -> None:
        tenure.beat()

    with pytest.raises(OperationFailed, match=f"process {os.getpid()} at"):
        take(other, holder(), Around(_alive, time.monotonic, sleep))
    other.close()
    tenure.check()


@dataclass
class Run:
    """A pipeline that runs on fakes, whose clock was set back since its job told something."""

    pipeline: Pipeline
    broker: FakeBroker = field(default_factory=FakeBroker)
    say: Callable[[str], None] = lambda _: None
    queries: Pipeline = field(init=False)

    def __post_init__(self) -> None:
        self.queries = as_queries(self.pipeline)

    def statuses(self) -> dict[str, JobStatus]:
        told = Progress(at=time.time() + HOUR)
        return {name: JobStatus(JobState.RUNNING, progress=told) for name in self.pipeline.jobs}

    def log(self, stream: str) -> Log:
        assert stream in self.pipeline.streams
        return self.broker.log


def test_ages_and_latencies_are_not_less_than_none_after_a_step_back() -> None:
    run = Run(load_text(FILE.replace("SITE", "here")).required())
    run.broker.ensure(*run.pipeline.streams.values())
    now, later = int(time.time() * 1000), int((time.time() + HOUR) * 1000)
    headers = (
        ("millrace-origin", b"roads/half even 0 0 0"),
        ("millrace-times", str(later).encode()),
    )
    run.broker.log.write("raw", [Record(b"{}", time=later)])
    run.broker.log.write("out", [Record(b"{}", headers=headers, time=now)])
    watch = Watch(run)
    try:
        end = time.monotonic() + 20
        while len(watch._latencies) < 1 or ("even", "raw") not in watch._oldest:
            assert time.monotonic() < end, watch._latencies
            time.sleep(0.02)
        views = {view.job: view for view in watch.views()}
    finally:
        watch.close()
    assert (views["half"].p50, views["half"].p99, views["half"].age) == (0.0, 0.0, 0.0)
    assert views["even"].lag_seconds == {"raw": 0.0}
