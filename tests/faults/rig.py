"""A pipeline that runs for real while faults fall on it, and the checker that tells the truth.

`in` goes through a real-time job to `mid` and through a micro-batch job of Python to `out`, so that
a record that arrives there has passed both modes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from millrace.agent.workshop import SiteWorkshop
from millrace.brokers.kafka import ManagedKafka
from millrace.coordinator.local import LocalRun, local_run
from millrace.engines.spark.engine import SparkEngine
from millrace.machine import Folders
from millrace.measure.fault import Fault, RunReport
from millrace.measure.load import Load
from millrace.measure.run import run_check
from millrace.ports import JobState
from millrace.spec import load_text

PIPELINE = """
pipeline: faults
sites: {here: {broker: kafka}}
defaults:
  streams:
    partitions: 2
    key: key
    dead_letters: dead
    schema: {run: string, writer: int, seq: long, key: string, sent: long, pad: string, crc: long}
streams:
  in: {}
  mid: {}
  out: {}
  dead: {format: raw, dead_letters: ~, key: ~, schema: ~}
jobs:
  first: {from: in, to: mid, sql: "SELECT * FROM `in` WHERE seq >= 0", checkpoint: 5 s}
  second: {from: mid, to: out, map: "passing:on"}
"""
#: A fault: falls on a running pipeline and tells when it fell and what it did.
Blow = Callable[["Rig"], Fault]
CODE = "def on(record):\n    return record\n"
#: One slow machine with everything on it: how long a recovery may take, in seconds.
RECOVERY = 120.0


@dataclass(slots=True)
class Rig:
    """A running pipeline; the thread that made it must be the one that calls `work`."""

    runner: LocalRun
    said: list[str] = field(default_factory=list)

    @property
    def shop(self) -> SiteWorkshop:
        """What the pipeline's only site is made of."""
        (keeper,) = self.runner.keepers
        assert isinstance(keeper.workshop, SiteWorkshop)
        return keeper.workshop

    @property
    def broker(self) -> ManagedKafka:
        """The pipeline's only broker."""
        found = self.shop.broker(self.runner.pipeline)
        assert isinstance(found, ManagedKafka)
        return found

    @property
    def driver(self) -> SparkEngine:
        """The pipeline's only driver."""
        (driver,) = self.shop.drivers.all
        assert isinstance(driver, SparkEngine)
        return driver

    @property
    def driver_pid(self) -> int:
        """The driver's process."""
        assert self.driver.pid is not None
        return self.driver.pid

    def work(self, until: Callable[[], bool], limit: float) -> None:
        """Keep the pipeline up until a condition holds."""
        end = time.monotonic() + limit
        while not until():
            assert time.monotonic() < end, f"not within {limit} s; {self.said[-5:]}"
            self.runner.tick()
            time.sleep(0.1)

    def held(self, stream: str) -> int:
        """How many records a stream got so far."""
        return sum(span.end for span in self.broker.log.ends(stream).values())

    def settled(self) -> bool:
        """Whether all jobs run."""
        states = [status.state for status in self.runner.statuses().values()]
        return all(state is JobState.RUNNING for state in states)

    def checked(self, load: Load, run: str, *blows: tuple[float, Blow]) -> RunReport:
        """Send a load, let faults fall so many seconds into it, and return what arrived."""
        result: Future[RunReport] = Future()
        thread = threading.Thread(target=self._check, args=(load, run, result), daemon=True)
        thread.start()
        begun, faults = time.monotonic(), []
        for after, blow in blows:
            left = begun + after - time.monotonic()
            self.work(lambda until=begun + after: time.monotonic() > until, max(left, 0) + 5)  # type: ignore[misc]
            faults.append(blow(self))
        self.work(result.done, load.seconds + 2 * RECOVERY)
        self.work(self.settled, RECOVERY)
        return replace(result.result(), faults=tuple(faults))

    def _check(self, load: Load, run: str, result: Future[RunReport]) -> None:
        log = self.broker.log
        try:
            report = run_check(log, "in", log, "out", load, run=run, wait=RECOVERY, settle=3.0)
            result.set_result(report)
        except BaseException as error:
            result.set_exception(error)


@contextmanager
def rig(place: Path, text: str = PIPELINE) -> Iterator[Rig]:
    """Run the pipeline in a folder; everything is ended afterwards."""
    code = place / "code"
    code.mkdir(exist_ok=True)
    (code / "passing.py").write_text(CODE)
    pipeline = load_text(text, "faults.yaml").required()
    folders = Folders.of(place / "home")
    folders.pipeline(pipeline.name).mkdir(parents=True, exist_ok=True)
    said: list[str] = []
    runner = local_run(pipeline, folders, code, said.append)
    runner.start()
    found = Rig(runner, said)
    try:
        found.work(found.settled, RECOVERY)
        yield found
    finally:
        runner.end()
