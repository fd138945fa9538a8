"""Sites of the shipped fakes that count how often each method is called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from millrace.model.status import JobFacts
from millrace.model.stream import Stream
from millrace.ports import BrokerStatus, JobOrder, JobStatus
from millrace.testing.fakes import FakeBroker, FakeEngine
from millrace.testing.workshop import FakeWorkshop

#: By "engine" or "broker" and the method.
Calls = Counter[str]


class CountedEngine(FakeEngine):
    """An engine that counts."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self._calls = calls

    def examine(self, orders: Sequence[JobOrder]) -> Mapping[str, JobFacts]:
        """Look at jobs."""
        self._calls["engine.examine"] += 1
        return super().examine(orders)

    def start(self, order: JobOrder) -> None:
        """Run a job."""
        self._calls["engine.start"] += 1
        super().start(order)

    def stop(self, job: str, ends: Mapping[str, Mapping[int, int]] | None = None) -> None:
        """Stop a job."""
        self._calls["engine.stop"] += 1
        super().stop(job, ends)

    def status(self) -> Mapping[str, JobStatus]:
        """Return all jobs."""
        self._calls["engine.status"] += 1
        return super().status()


class CountedBroker(FakeBroker):
    """A broker that counts."""

    def __init__(self, name: str, calls: Calls) -> None:
        super().__init__(name)
        self._calls = calls

    def start(self) -> None:
        """Serve."""
        self._calls["broker.start"] += 1
        super().start()

    def status(self, *, whole: bool = True) -> BrokerStatus:
        """Return what is there."""
        self._calls["broker.status"] += 1
        return super().status(whole=whole)

    def ensure(self, *streams: Stream, readers: Sequence[str] = ()) -> None:
        """Make streams."""
        self._calls["broker.ensure"] += 1
        super().ensure(*streams, readers=readers)

    def drop(self, stream: Stream) -> None:
        """Remove a stream."""
        self._calls["broker.drop"] += 1
        super().drop(stream)


def counted_shop(site: str, folder: Path, calls: Calls) -> FakeWorkshop:
    """Return what a keeper of a site works with."""
    folder.mkdir(parents=True, exist_ok=True)
    return FakeWorkshop(site, folder, CountedBroker(site, calls), CountedEngine(calls))
