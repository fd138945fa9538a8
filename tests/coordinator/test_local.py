"""Runs of a pipeline here: drains, jobs that are given up, ends; with engines that only say so."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from millrace.agent import backoff
from millrace.coordinator.local import DRAINS, LocalRun, local_run
from millrace.coordinator.service import Clocks
from millrace.coordinator.tenure import Around, Holder, take
from millrace.errors import OperationFailed
from millrace.machine import Folders
from millrace.model.pipeline import Pipeline
from millrace.ports import JobOrder, JobState, JobStatus, Progress, Record
from millrace.ports.link import JobGoal
from millrace.spec import load_text
from millrace.testing.fakes import FakeEngine
from millrace.testing.memory_store import MemoryStore
from millrace.testing.workshop import FakeWorkshop

TEXT = """
pipeline: p
sites: {here: {broker: kafka}}
streams: {raw: {schema: {n: int}}, clean: {}, out: {}}
jobs:
  source: {read: lines.jsonl, to: raw}
  clean: {from: raw, to: clean, sql: SELECT n FROM raw}
  last: {from: clean, to: out, sql: SELECT n FROM clean}
"""
RUNNING, FAILED, STOPPED = JobState.RUNNING, JobState.FAILED, JobState.STOPPED
ENDED = JobState.ENDED


def not_drained(job: str) -> OperationFailed:
    return OperationFailed("not-drained", f"job {job} was not drained: it ended", transient=True)


@dataclass(slots=True)
class Scripted(FakeEngine):
    """An engine behind its port: what a stop of a job raises is given, one after another."""

    stops: dict[str, list[OperationFailed]] = field(default_factory=dict)
    log: list[tuple[str, str, object]] = field(default_factory=list)

    def start(self, order: JobOrder) -> None:
        self.log.append(("start", order.job.name, None))
        FakeEngine.start(self, order)

    def stop(self, job: str, ends: Mapping[str, Mapping[int, int]] | None = None) -> None:
        self.log.append(("stop", job, ends))
        if self.stops.get(job):
            failure = self.stops[job].pop(0)
            self.told(job, FAILED, error=failure.message, transient=failure.transient)
            raise failure
        FakeEngine.stop(self, job, ends)

    def told(self, job: str, state: JobState, **more: Any) -> None:
        self.jobs[job] = replace(JobStatus(state), **more)


@dataclass(slots=True)
class Shop(FakeWorkshop):
    """A site of one engine, where each stream ends at the length of its name."""

    spark: Scripted = field(default_factory=Scripted)

    def ends(self, file: object, stream: str, *_: object, **__: object) -> dict[int, int]:
        del file
        return {0: len(stream)}

    def progress(self, file: Pipeline, query: str, goal: JobGoal) -> dict[str, Progress]:
        del file, goal
        known = self.spark.jobs.get(query)
        return {query: known.progress} if known is not None else {}


class AtOnce(ThreadPoolExecutor):
    """A pool that has done a piece of work when it takes it."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*args, **more))
        return done


@dataclass
class Lab:
    """A machine on which one run comes after another."""

    place: Path
    shop: Shop
    said: list[str] = field(default_factory=list)
    store: MemoryStore = field(default_factory=MemoryStore)

    def run(self, text: str = TEXT) -> LocalRun:
        """Return a run that is not started."""
        holder = Holder("here", 1, 0.0)
        tenure = take(self.store, holder, Around(lambda _: False, time.monotonic, time.sleep))
        run = LocalRun(
            load_text(text, "p").required(),
            tenure,
            Folders(self.place, self.place),
            lambda *_: self.shop,
            lambda _, site: self.place / site,
            self.said.append,
        )
        run._agent._pool = AtOnce()
        return run

    def started(self, text: str = TEXT, **stops: list[OperationFailed]) -> LocalRun:
        run = self.run(text)
        run.start()
        self.engine.log.clear()
        self.engine.stops |= stops
        self.said.clear()
        return run

    @property
    def engine(self) -> Scripted:
        return self.shop.spark

    def stopped(self) -> list[str]:
        return [job for what, job, _ in self.engine.log if what == "stop"]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(backoff, "FIRST_SECONDS", 0.01)
    Folders(tmp_path, tmp_path).pipeline("p").mkdir(parents=True)
    return Lab(tmp_path, Shop("here", tmp_path))


def test_all_are_drained_in_the_direction_of_the_data(lab: Lab) -> None:
    lab.started().drain()
    assert lab.engine.log == [
        ("stop", "source", {}),
        ("stop", "clean", {"raw": {0: 3}}),
        ("stop", "last", {"clean": {0: 5}}),
    ]


def test_a_job_that_fails_while_it_is_drained_is_started_again(lab: Lab) -> None:
    run = lab.started(clean=[not_drained("clean"), not_drained("clean")])
    run.drain()
    assert [(what, job) for what, job, _ in lab.engine.log] == [
        ("stop", "source"),
        *[("stop", "clean"), ("start", "clean")] * 2,
        ("stop", "clean"),
        ("stop", "last"),
    ]
    assert sum("clean was not drained" in text for text in lab.said) == 2
    assert run.restarts == {"clean": 2}
    assert {status.state for status in run.statuses().values()} == {STOPPED}


def test_a_job_that_had_failed_before_is_not_drained(lab: Lab) -> None:
    run = lab.started()
    lab.engine.told("source", FAILED, error="the disk is full")
    run.drain()
    assert lab.engine.log[:2] == [("start", "source", None), ("stop", "source", {})]


def test_a_drain_has_an_end_and_says_why(lab: Lab) -> None:
    run = lab.started(clean=[not_drained("clean")] * 99)
    with pytest.raises(OperationFailed, match="clean was not drained: it ended"):
        run.drain()
    [keeper] = run.keepers
    settled(run, lambda: keeper._backoff["job", "clean"].may(time.monotonic()))
    run.tick()
    assert lab.stopped() == ["source", *["clean"] * DRAINS, "last"]
    assert run.statuses()["clean"].state is FAILED


def test_what_trying_again_can_not_help_is_not_tried_again(lab: Lab) -> None:
    slow = OperationFailed("too-slow", "job clean was not drained within 600 s", transient=True)
    run = lab.started(clean=[slow])
    lab.engine.told("last", FAILED, error="bad code", hint="mend it", transient=False)
    run.tick()
    with pytest.raises(OperationFailed, match="600 s"):
        run.drain()
    run.tick()
    assert [job for _, job, _ in lab.engine.log] == ["source", "clean"]
    assert "job last was not drained: bad code (mend it)" in lab.said


def test_a_job_over_that_can_not_be_drained_does_not_hold_up_a_drain(lab: Lab) -> None:
    run = lab.started(clean=[not_drained("clean")] * 99)
    lab.engine.told("source", ENDED)
    run.tick()
    run.tick()
    with pytest.raises(OperationFailed, match="clean was not drained: it ended"):
        run.drain()
    assert [job for job in lab.stopped() if job != "source"] == [*["clean"] * DRAINS, "last"]


def settled(run: LocalRun, until: Callable[[], bool]) -> None:
    """Go on until something holds; a job that failed waits a moment before it is tried again."""
    end = time.monotonic() + 30
    while not until():
        assert time.monotonic() < end, run.statuses()
        run.tick()


def test_a_job_over_that_was_not_drained_is_not_over(lab: Lab) -> None:
    run = lab.started(clean=[not_drained("clean")])
    lab.engine.told("source", ENDED)
    settled(run, lambda: lab.stopped() == ["clean"])
    run._coordinator.tick()
    assert lab.engine.jobs["clean"].state is FAILED
    assert "job clean is over" not in lab.said
    assert not run.complete
    settled(run, lambda: run.complete)
    assert lab.said[-2:] == ["job clean is over", "job last is over"]
    assert {status.state for status in run.statuses().values()} == {ENDED}


def test_a_source_whose_time_is_over_is_not_read_to_its_end(lab: Lab) -> None:
    run = lab.started(TEXT.replace("to: raw}", "to: raw, end: {after: 1 h}}"))
    run.tick()
    assert lab.engine.log == []
    run._coordinator.clocks = Clocks(time.time, lambda: time.monotonic() + 3601)
    run.tick()
    run.tick()
    assert lab.engine.log[0] == ("stop", "source", None)


@pytest.mark.parametrize("moment", ["before", "while it is drained"])
def test_a_pipeline_ends_though_a_job_was_given_up(lab: Lab, moment: str) -> None:
    """What comes after it gets nothing any more."""
    bad = OperationFailed("bad", "job clean: bad record")
    run = lab.started(clean=[] if moment == "before" else [bad])
    if moment == "before":
        lab.engine.told("clean", FAILED, error="job clean: bad record", transient=False)
    lab.engine.told("source", ENDED)
    assert not run.complete
    settled(run, lambda: run.complete)
    others = [one for one in lab.engine.log if one[1] != "clean"]
    assert others == [("stop", "last", {"clean": {0: 5}})]
    assert run.given_up == {"clean": "job clean: bad record"}


def test_a_job_that_fails_is_started_again_and_that_is_told(lab: Lab) -> None:
    run = lab.started()
    lab.engine.told("clean", FAILED, error="the disk is full", hint="make room")
    lab.engine.broken["clean"] = OperationFailed("busy", "not yet", transient=True)
    run.tick()
    run.tick()
    assert lab.said == ["the disk is full (make room)"]
    lab.engine.broken.clear()
    settled(run, lambda: run.statuses()["clean"].state is RUNNING)
    assert set(lab.engine.log) == {("start", "clean", None)}
    assert run.restarts == {"clean": 1}
    assert run.given_up == {}


def test_what_can_not_start_is_raised_and_nothing_is_left(lab: Lab) -> None:
    lab.engine.broken["last"] = OperationFailed("bad", "job last: no such function", "write it")
    with pytest.raises(OperationFailed, match="no such function"):
        lab.run().start()
    assert {status.state for status in lab.engine.jobs.values()} <= {STOPPED}
    assert not lab.shop.kafka.status().up
    lab.engine.broken.clear()
    lab.started()
    assert {status.state for status in lab.engine.jobs.values()} == {RUNNING}
    assert len(lab.engine.jobs) == 3


def test_what_an_engine_refuses_is_raised_before_anything_starts(lab: Lab) -> None:
    lab.engine.refused["clean"] = OperationFailed("bad-query", "job clean: no column n")
    with pytest.raises(OperationFailed, match="no column n"):
        lab.run().start()
    assert lab.engine.jobs == {}


def test_engines_are_asked_at_each_start(lab: Lab) -> None:
    """The user's code may be another, though the file is the same."""
    lab.started().end()
    lab.engine.refused["clean"] = OperationFailed("bad-query", "job clean: no column n")
    with pytest.raises(OperationFailed, match="no column n"):
        lab.run().start()
    assert {status.state for status in lab.engine.jobs.values()} == {STOPPED}


def test_the_next_run_finds_a_topic_gone_and_another_with_other_settings(lab: Lab) -> None:
    """Whoever did that: it is as the file says again."""
    text = TEXT.replace("clean: {}", "clean: {compact: true, partitions: 3}")
    run = lab.started(text)
    clean, raw = run.pipeline.streams["clean"], run.pipeline.streams["raw"]
    run.end()
    lab.shop.kafka.drop(raw)
    lab.shop.kafka.ensure(replace(clean, compact=False))
    lab.started(text)
    there = lab.shop.kafka.status().streams
    assert sorted(there) == ["clean", "out", "raw"]
    assert there["clean"].compact


def test_streams_that_left_the_file_stay_and_are_told(lab: Lab) -> None:
    lab.started().end()
    run = lab.run(TEXT.replace(", out: {}", "").replace("to: out, ", ""))
    run.start()
    assert "left on the broker, though no longer in the file: out" in lab.said
    assert "out" in lab.shop.kafka.status().streams


@pytest.mark.parametrize(
    ("change", "refused"), [("partitions: 1", "fewer"), ("partitions: 3, key: n", "")]
)
def test_no_record_goes_because_a_stream_was_changed(lab: Lab, change: str, refused: str) -> None:
    """Nobody was asked: the log stays as it is, or the run is refused."""
    lab.started(TEXT.replace("clean: {}", "clean: {partitions: 3}")).end()
    lab.shop.kafka.log.write("clean", [Record(b"{}") for _ in range(9)])
    run = lab.run(TEXT.replace("clean: {}", f"clean: {{{change}}}"))
    with pytest.raises(OperationFailed, match=refused) if refused else nullcontext():
        run.start()
    assert sum(span.end for span in lab.shop.kafka.log.ends("clean").values()) == 9


CHAIN = """
pipeline: p
sites: {here: {broker: kafka}}
streams: {raw: {schema: {n: int}}, mid: {}, out: {}}
jobs:
  a: {from: raw, to: mid, sql: SELECT n FROM raw}
  b: {from: mid, to: out, sql: SELECT n FROM mid}
"""
FUSED = CHAIN.replace("mid: {}", "mid: {transient: true}")


def ran(lab: Lab, read: int, written: int) -> None:
    """Let a run of two jobs come and go in which b had read so much of what a wrote."""
    lab.started(CHAIN).end()
    lab.shop.kafka.log.write("mid", [Record(b"{}") for _ in range(written)])
    lab.engine.told("b", STOPPED, progress=Progress(positions={"mid": {0: read}}))


def test_a_stream_goes_inside_when_all_of_it_was_read(lab: Lab) -> None:
    ran(lab, read=5, written=8)
    with pytest.raises(OperationFailed) as caught:
        lab.run(FUSED).start()
    assert caught.value.code == "unread"
    assert "3 records of mid are not read yet by b" in caught.value.message
    assert "--until-drained" in caught.value.hint
    assert {status.state for status in lab.engine.jobs.values()} == {STOPPED}
    lab.engine.told("b", STOPPED, progress=Progress(positions={"mid": {0: 8}}))
    lab.started(FUSED)
    assert lab.engine.jobs["a"].state is RUNNING
    assert lab.engine.jobs["b"].state is STOPPED


def test_a_change_that_was_interrupted_is_begun_again(lab: Lab) -> None:
    """The job that goes inside the query was gone already."""
    ran(lab, read=8, written=8)
    lab.engine.broken["a"] = OperationFailed("bad", "no such function")
    with pytest.raises(OperationFailed, match="no such function"):
        lab.run(FUSED).start()
    lab.engine.broken.clear()
    lab.shop.kafka.log.write("mid", [Record(b"{}")])
    with pytest.raises(OperationFailed, match="1 records of mid"):
        lab.run(FUSED).start()
    lab.started(CHAIN)
    assert {name: lab.engine.jobs[name].state for name in "ab"} == {"a": RUNNING, "b": RUNNING}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(CHAIN, id="it stays where it is"),
        pytest.param(FUSED.replace("b: {", "c: {"), id="who had not read it is gone"),
    ],
)
def test_what_nobody_loses_may_be_unread(lab: Lab, text: str) -> None:
    ran(lab, read=5, written=8)
    lab.started(text)
    assert lab.engine.jobs["a"].state is RUNNING


def test_a_stream_whose_topic_is_gone_goes_inside(lab: Lab) -> None:
    ran(lab, read=5, written=8)
    lab.shop.kafka.drop(load_text(CHAIN).required().streams["mid"])
    lab.started(FUSED)
    assert lab.engine.jobs["a"].state is RUNNING


def test_a_site_that_is_elsewhere_is_refused(tmp_path: Path) -> None:
    far = load_text(TEXT.replace("broker: kafka", "broker: kafka, host: far.example")).required()
    with pytest.raises(OperationFailed) as caught:
        local_run(far, Folders(tmp_path, tmp_path), tmp_path, print)
    assert caught.value.code == "elsewhere"
    assert "far.example" in caught.value.message
    assert "--profile" in caught.value.hint
    assert list(tmp_path.iterdir()) == []
