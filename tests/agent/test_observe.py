"""What is there: what was applied last, corrected by what brokers have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.agent.observe import as_seen, observed
from millrace.brokers.kafka.topics import stream_status, topic_settings
from millrace.model.job import Input, Job
from millrace.model.pipeline import Pipeline
from millrace.model.quantity import Duration, Size
from millrace.model.site import Broker, Site
from millrace.model.stream import Stream
from millrace.ports import BrokerStatus, StreamStatus

SITE = Site(name="a", broker=Broker())
RAW = Stream(name="raw", site="a", partitions=2)
JOB = Job(name="j", site="a", inputs=(Input(stream="raw"),), sql="SELECT 1")
DESIRED = Pipeline("p", sites={"a": SITE}, streams={"raw": RAW}, jobs={"j": JOB})


def broker(**streams: StreamStatus) -> dict[str, BrokerStatus]:
    return {"a": BrokerStatus(up=True, streams=streams)}


def test_a_first_run_finds_nothing() -> None:
    seen = observed(Pipeline(""), DESIRED, broker())
    assert seen.pipeline == Pipeline("p")
    assert seen.down == frozenset()


def test_a_topic_that_somebody_made_is_there() -> None:
    seen = observed(Pipeline(""), DESIRED, broker(raw=StreamStatus(5)))
    assert seen.pipeline.streams == {"raw": replace(RAW, partitions=5)}
    assert seen.pipeline.jobs == {}


def test_what_was_applied_and_is_as_it_was() -> None:
    seen = observed(DESIRED, DESIRED, broker(raw=StreamStatus(2)))
    assert seen.pipeline == DESIRED
    assert seen.down == {"j"}


def test_a_topic_that_is_gone_is_not_there() -> None:
    assert observed(DESIRED, DESIRED, broker()).pipeline.streams == {}
    assert observed(DESIRED, DESIRED, {}).pipeline.streams == {}


def test_a_stream_is_looked_for_by_its_topic_at_its_own_broker() -> None:
    named = replace(DESIRED, streams={"raw": replace(RAW, topic="t")})
    assert "raw" in observed(Pipeline(""), named, broker(t=StreamStatus(2))).pipeline.streams
    assert observed(Pipeline(""), named, broker(raw=StreamStatus(2))).pipeline.streams == {}
    other = {"b": BrokerStatus(up=True, streams={"t": StreamStatus(2)})}
    assert observed(Pipeline(""), named, other).pipeline.streams == {}


def test_what_the_file_no_longer_has_is_still_there() -> None:
    without = replace(DESIRED, streams={}, jobs={})
    seen = observed(DESIRED, without, broker(raw=StreamStatus(2)))
    assert seen.pipeline.streams == {"raw": RAW}
    assert seen.down == {"j"}


@pytest.mark.parametrize(
    "declared",
    [
        RAW,
        replace(RAW, retention=Duration(3600 * Duration.UNITS["s"])),
        replace(RAW, retention=Size(10_000_000), max_record=Size(2_000_000)),
        replace(RAW, compact=True),
        replace(RAW, compact=True, retention=Duration(3600 * Duration.UNITS["s"])),
    ],
)
def test_a_stream_that_was_made_as_declared_shows_no_difference(declared: Stream) -> None:
    there = stream_status(declared.partitions, topic_settings(declared))
    assert as_seen(declared, declared, there) == declared


@pytest.mark.parametrize(
    ("there", "change"),
    [
        (StreamStatus(3), {"partitions": 3}),
        (StreamStatus(2, retention_ms=1000), {"retention": Duration(10**9)}),
        (StreamStatus(2, retention_bytes=5), {"retention": Size(5)}),
        (StreamStatus(2, max_record=7), {"max_record": Size(7)}),
        (StreamStatus(2, compact=True), {"compact": True}),
    ],
)
def test_each_setting_that_differs_is_seen(there: StreamStatus, change: dict[str, object]) -> None:
    assert as_seen(RAW, RAW, there) == replace(RAW, **change)  # type: ignore[arg-type]


def test_a_setting_that_was_taken_away_is_seen() -> None:
    declared = replace(RAW, retention=Size(5), max_record=Size(7), compact=True)
    assert as_seen(declared, declared, StreamStatus(2)) == RAW
