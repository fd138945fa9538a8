"""A site of fakes, as the keeper of a site sees it: for whole coordinators without processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from millrace.model.pipeline import Pipeline
from millrace.plan.fuse import as_queries
from millrace.ports import JobOrder, Progress
from millrace.ports.link import JobGoal
from millrace.testing.fakes import FakeBroker, FakeEngine


@dataclass(slots=True)
class FakeWorkshop:
    """What a keeper of a site works with; its jobs do nothing but run.

    `around` is what a site is told of others, which fakes don't need.
    """

    site: str
    folder: Path
    kafka: FakeBroker = field(default_factory=FakeBroker)
    spark: FakeEngine = field(default_factory=FakeEngine)

    def broker(self, file: Pipeline) -> FakeBroker:
        """Return the broker; the same for every file."""
        del file
        return self.kafka

    def engine(self, file: Pipeline, query: str) -> FakeEngine:
        """Return the engine; the same for every query."""
        del file, query
        return self.spark

    def order(self, file: Pipeline, query: str, goal: JobGoal | None, around: object) -> JobOrder:
        """Return the order of a query."""
        del goal, around
        job = as_queries(file).jobs[query]
        return JobOrder(file, job, {}, self.folder, self.folder, job.members)

    def ends(
        self, file: Pipeline, stream: str, around: object, query: str | None = None
    ) -> dict[int, int]:
        """Return where a stream of this site ends; those of others hold nothing that is known."""
        del around, query
        found = file.streams[stream]
        if found.site != self.site or found.address not in self.kafka.status().streams:
            return {}
        spans = self.kafka.log.ends(found.address)
        return {part: span.end for part, span in spans.items() if span.end > span.first}

    def received(self, file: Pipeline, query: str) -> dict[str, dict[str, int]]:
        """Return no counts: nothing is received here."""
        del file, query
        return {}

    def progress(self, file: Pipeline, query: str, goal: JobGoal) -> dict[str, Progress]:
        """Return no progress."""
        del file, goal
        return {query: Progress()}

    def parcel(self, query: str, number: int) -> str:
        """Return a digest of nothing."""
        del query, number
        return "0" * 64

    def log(self, file: Pipeline, query: str) -> Path:
        """Return where a test may write what a job tells."""
        del file
        return self.folder / f"{query}.log"

    def halt(self) -> None:
        """Stop every job."""
        self.spark.close()

    def kill(self) -> None:
        """End all at once."""
        self.spark.close()
        self.kafka.stop()

    def close(self) -> None:
        """End the broker."""
        self.kafka.stop()
