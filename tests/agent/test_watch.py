"""What is seen of a running pipeline: lag by its commits and its results, and latencies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from millrace.agent.watch import JobView, Watch
from millrace.brokers.kafka import ManagedKafka
from millrace.model.pipeline import Pipeline
from millrace.plan.fuse import as_queries
from millrace.ports import JobState, JobStatus, Log, Record
from millrace.spec import load_text

TEXT = """
pipeline: p
sites: {here: {broker: kafka}}
streams: {raw: {schema: {n: int}}, out: {schema: {n: int}}}
jobs: {j: {from: raw, to: out, sql: "SELECT n FROM raw"}}
"""


@dataclass
class Started:
    """A pipeline whose broker is up and whose jobs have not told anything."""

    pipeline: Pipeline
    kafka: ManagedKafka
    say: Callable[[str], None] = lambda _: None
    queries: Pipeline = field(init=False)

    def __post_init__(self) -> None:
        self.queries = as_queries(self.pipeline)
        self.kafka.ensure(*self.pipeline.streams.values())

    def statuses(self) -> dict[str, JobStatus]:
        return dict.fromkeys(self.pipeline.jobs, JobStatus(JobState.STARTING))

    def log(self, stream: str) -> Log:
        assert self.pipeline.streams[stream].site == "here"
        return self.kafka.log


@pytest.fixture
def watch(kafka: ManagedKafka) -> Iterator[Watch]:
    """Look at such a pipeline."""
    watch = Watch(Started(load_text(TEXT, "p").required(), kafka))
    yield watch
    watch.close()


def seen(watch: Watch, lag: int, samples: int) -> JobView:
    """Return the view of the only job when it shows a lag and has so many latencies."""
    until = time.monotonic() + 60
    while True:
        [view] = watch.views()
        if view.lag_records == {"raw": lag} and len(watch._latencies.get("j", ())) == samples:
            return view
        assert time.monotonic() < until, view
        time.sleep(0.1)


def result(position: int, *times: int) -> Record:
    headers = [("millrace-origin", f"p/j raw 0 {position} 0".encode())]
    if times:
        headers.append(("millrace-times", ",".join(map(str, times)).encode()))
    return Record(b"{}", headers=tuple(headers), time=1_000_500)


def test_lag_and_latency_come_from_results(watch: Watch, kafka: ManagedKafka) -> None:
    kafka.log.write("raw", [Record(b"{}", time=1_000_000) for _ in range(10)])
    first = seen(watch, 10, 0)
    assert (first.job, first.site, first.status.state) == ("j", "here", JobState.STARTING)
    assert (first.p50, first.p99, first.age) == (None, None, None)
    kafka.log.write("out", [result(0, 1_000_000), result(1), result(6, 1_000_400), Record(b"{}")])
    view = seen(watch, 3, 2)
    assert {view.p50, view.p99} == {0.5}
    assert sorted(watch._latencies["j"]) == [0.1, 0.5]
    assert view.lag_seconds["raw"] > 1_000_000  # the oldest that is left is of long ago
    kafka.log.write("out", [result(9)])
    assert seen(watch, 0, 2).lag_seconds == {"raw": 0.0}


RATED = """
pipeline: rated
sites: {here: {broker: kafka}}
streams: {rated-in: {schema: {n: int}}, rated: {schema: {n: int}}, rated-out: {schema: {n: int}}}
jobs:
  one:
    from: {stream: rated-in, consumes: 1}
    to: {stream: rated, produces: 2}
    sql: "SELECT n FROM `rated-in`"
  two:
    from: {stream: rated, consumes: 20}
    to: {stream: rated-out, produces: 1}
    sql: "SELECT max(n) AS n FROM rated"
"""


def test_more_than_the_rates_promise_is_told_once(kafka: ManagedKafka) -> None:
    said: list[str] = []
    watch = Watch(Started(load_text(RATED, "p").required(), kafka, said.append))
    promised = watch.promised["rated"]
    try:
        for more, told in ((promised, 0), (1, 1), (7, 1)):
            kafka.log.write("rated", [Record(b"{}") for _ in range(more)])
            full = sum(span.end for span in kafka.log.ends("rated").values())
            until = time.monotonic() + 60
            while watch.peaks.get("rated") != full:
                assert time.monotonic() < until, watch.peaks
                time.sleep(0.05)
            assert len(said) == told, said
    finally:
        watch.close()
    assert f"holds {promised + 1} records" in said[0]
    assert f"promise at most {promised}" in said[0]
