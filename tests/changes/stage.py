"""A coordinator in this process with three sites, a Kafka and a Spark each, under load."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from millrace.agent.workshops import Workshops
from millrace.coordinator.home import Home
from millrace.coordinator.revision import Submission
from millrace.coordinator.station import Station
from millrace.coordinator.views import OperationView
from millrace.machine import Folders
from millrace.measure.fault import RunReport
from millrace.measure.load import Load
from millrace.measure.run import run_check
from millrace.model.pipeline import Pipeline
from millrace.ports import Log
from millrace.stores.artifacts import LocalDepot

LIMIT = 240.0


@dataclass(slots=True)
class Stage:
    """A station whose sites are all here."""

    station: Station

    def apply(self, wanted: Pipeline, *, state_loss: bool = False) -> OperationView:
        """Change the pipeline and return how that ended."""
        begun = self.station.apply(Submission(wanted, by="test", state_loss=state_loss))
        self.until(lambda: self.station.operation(begun.id).over, LIMIT)
        return self.station.operation(begun.id)

    def until(self, holds: Callable[[], bool], limit: float) -> None:
        """Wait for a condition."""
        end = time.monotonic() + limit
        while not holds():
            assert time.monotonic() < end, self.station.operations()[:1]
            time.sleep(0.1)

    def running(self, pipeline: str) -> bool:
        """Whether all jobs run."""
        return all(job.state == "running" for job in self.station.jobs(pipeline))

    def runs(self, pipeline: str) -> dict[str, str]:
        """Return Spark's own name for the run of each job."""
        return {job.name: job.run for job in self.station.jobs(pipeline)}

    def log(self, pipeline: Pipeline, stream: str) -> Log:
        """Return the log of a stream."""
        site = pipeline.streams[stream].site or ""
        keepers = self.station.rounds.agent.keepers
        keeper = next(keeper for keeper in keepers if keeper.site == site)
        return keeper.workshop.broker(pipeline).log

    def await_load(self, pipeline: Pipeline, count: int) -> None:
        """Wait until so many records more are in `in`: till then a change hits nothing."""
        before = self.sent(pipeline)
        self.until(lambda: self.sent(pipeline) >= before + count, LIMIT)

    def sent(self, pipeline: Pipeline) -> int:
        """Return how many records are in `in`."""
        return sum(span.end for span in self.log(pipeline, "in").ends("in").values())

    def loaded(
        self, pipeline: Pipeline, load: Load, run: str, enough: Callable[[], bool]
    ) -> Future[RunReport]:
        """Begin to send a load from `in` to `out`, till there is enough; and to check it."""
        result: Future[RunReport] = Future()

        def work() -> None:
            logs = self.log(pipeline, "in"), self.log(pipeline, "out")
            try:
                found = run_check(
                    logs[0], "in", logs[1], "out", load, run=run, wait=LIMIT, settle=3.0,
                    enough=enough,
                )  # fmt: skip
                result.set_result(found)
            except BaseException as error:
                result.set_exception(error)

        threading.Thread(target=work, name=f"load {run}", daemon=True).start()
        return result


@contextmanager
def stage(place: Path, say: Callable[[str], None] | None = None) -> Iterator[Stage]:
    """Run a coordinator in a folder; everything is ended afterwards."""
    home = Home(Folders.of(place / "home"))
    shops = Workshops(home.sites, LocalDepot(home.artifacts), say=say)
    station = Station.open(home, shops.workshop, shops.place)
    try:
        yield Stage(station)
    finally:
        station.close()
