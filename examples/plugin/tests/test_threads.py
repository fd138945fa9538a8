"""The engine claims all that the suite asks; its limits are told before anything starts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from millrace.errors import OperationFailed
from millrace.model import Broker as Declared
from millrace.model import Engine as Runs
from millrace.model import Format, Input, Job, Mode, OnError, Output, Pipeline, Site, Stream
from millrace.model.policy import ErrorPolicy
from millrace.ports import (
    Broker,
    BrokerOrder,
    Engine,
    EngineOrder,
    JobOrder,
    JobState,
    Record,
    origin_of,
)
from millrace.testing.conformance.claims import behaviours
from millrace.testing.conformance.engine import BAD, EngineConformance, Standard

from millrace_shelf.plugin import SHELF, THREADS

CODE = f"""
def copies(row):
    return row

def squares(row):
    return {{"n": row["n"] * row["n"]}} if row["n"] % 2 == 0 else None

def fails(row):
    if row["n"] == {BAD}:
        raise ValueError("a bad number")
    return row

def twice(row):
    return [{{"n": row["n"], "half": half}} for half in (1, 2)]
"""


@dataclass
class ThreadsBench:
    """A shelf and an engine; each job has streams of its own."""

    place: Path
    broker: Broker
    orders: dict[str, JobOrder] = field(default_factory=dict)
    made: Engine | None = None

    def engine(self) -> Engine:
        if self.made is None:
            order = EngineOrder("p", "here", self.place / "driver", self.place / "cache")
            self.made = THREADS.engine(order)
        return self.made

    def order(self, standard: Standard, job: str, **given: object) -> JobOrder:
        if job not in self.orders:
            made = Job(
                job,
                site="here",
                engine="threads",
                map=f"code:{standard}",
                on_error=OnError(policy=ErrorPolicy.STOP),
                inputs=(Input(stream=f"{job}-in"),),
                outputs=(Output(stream=f"{job}-out"),),
            )
            made = replace(made, **given)  # type: ignore[arg-type]
            streams = {name: Stream(name, site="here", partitions=2) for name in _names(job)}
            self.broker.ensure(*streams.values())
            site = Site("here", engines=(Runs(kind="threads"),), broker=Declared(kind="shelf"))
            pipeline = Pipeline("p", sites={"here": site}, streams=streams, jobs={job: made})
            clients = {"here": self.broker.status().clients["shelf"]}
            place = self.place / "jobs" / job / "1"
            self.orders[job] = JobOrder(pipeline, made, clients, place, self.place, writers=clients)
        return self.orders[job]

    def send(self, job: str, numbers: Sequence[int]) -> None:
        records = [Record(json.dumps({"n": n}).encode(), b"%d" % n) for n in numbers]
        self.broker.log.write(f"{job}-in", records)

    def records(self, stream: str) -> list[Record]:
        ends = {part: span.end for part, span in self.broker.log.ends(stream).items()}
        return list(self.broker.log.read(stream, dict.fromkeys(ends, 0), ends))

    def results(self, job: str) -> list[int]:
        return [json.loads(record.value or b"")["n"] for record in self.records(f"{job}-out")]

    def ends(self, job: str) -> Mapping[str, Mapping[int, int]]:
        spans = self.broker.log.ends(f"{job}-in")
        return {f"{job}-in": {part: span.end for part, span in spans.items()}}


def _names(job: str) -> tuple[str, str]:
    return f"{job}-in", f"{job}-out"


@pytest.fixture
def bench(tmp_path: Path) -> ThreadsBench:
    (tmp_path / "code.py").write_text(CODE)
    broker = SHELF.broker(BrokerOrder("here", tmp_path / "site", tmp_path / "cache"))
    broker.start()
    return ThreadsBench(tmp_path, broker)


class TestThreads(EngineConformance):
    CLAIMS = frozenset(behaviours(EngineConformance))


@pytest.mark.parametrize(
    ("given", "way"),
    [
        ({"map": None, "sql": "SELECT 1"}, "map: module:function"),
        ({"mode": Mode.REAL_TIME}, "leave it out"),
        ({"map": "code:copied"}, "'copies'"),
        ({"map": "cod:copies"}, "cod.py"),
        ({"outputs": ()}, "give it one"),
    ],
)
def test_what_can_not_run_is_told(bench: ThreadsBench, given: dict[str, object], way: str) -> None:
    order = bench.order(Standard.COPIES, "job", **given)
    with pytest.raises(OperationFailed) as caught:
        bench.engine().examine([order])
    assert way in caught.value.hint


def test_records_that_can_not_be_used_are_buried(bench: ThreadsBench) -> None:
    """With what was wrong and where they came from; the ledger has them."""
    policy = OnError(policy=ErrorPolicy.SKIP)
    order = bench.order(Standard.FAILS, "job", on_error=policy)
    letters = Stream("dead", site="here", format=Format.RAW)
    bench.broker.ensure(letters)
    source = replace(order.pipeline.streams["job-in"], dead_letters="dead")
    streams = {**order.pipeline.streams, "dead": letters, "job-in": source}
    order = replace(order, pipeline=replace(order.pipeline, streams=streams))
    bench.send("job", [1, BAD])
    bench.broker.log.write("job-in", [Record(b"garbage")])
    bench.engine().start(order)
    bench.engine().stop("job", bench.ends("job"))
    assert bench.results("job") == [1]
    dead = {record.value: record.header("millrace-cause") for record in bench.records("dead")}
    assert dead == {
        b'{"n": -1}': b"ValueError: a bad number",
        b"garbage": b"is no JSON object",
    }
    fates = bench.engine().status()["job"].progress.fates
    assert (fates.read, fates.used, fates.malformed, fates.dropped) == (3, 1, 1, 1)
    assert fates.written == {"job-out": 1, "dead": 2}


def test_results_say_where_they_came_from(bench: ThreadsBench) -> None:
    order = bench.order(Standard.COPIES, "job", map="code:twice")
    bench.send("job", [7])
    bench.engine().start(order)
    bench.engine().stop("job", bench.ends("job"))
    [source] = bench.records("job-in")
    found = [origin_of(record) for record in bench.records("job-out")]
    told = [(it.job, it.stream, it.partition, it.position, it.index) for it in found if it]
    at = (source.partition, source.position)
    assert told == [("p/job", "job-in", *at, 0), ("p/job", "job-in", *at, 1)]


def test_a_job_begins_where_it_is_told(bench: ThreadsBench) -> None:
    """As after a change, when it goes on from what another job has read."""
    order = bench.order(Standard.COPIES, "job")
    bench.send("job", range(10))
    at = {part: end - 1 for part, end in bench.ends("job")["job-in"].items()}
    order.place.mkdir(parents=True)
    (order.place / "start.json").write_text(json.dumps({"job-in": at}))
    bench.engine().start(order)
    bench.engine().stop("job", bench.ends("job"))
    assert len(bench.results("job")) == 2


def test_a_folder_has_one_runner(bench: ThreadsBench, tmp_path: Path) -> None:
    order = bench.order(Standard.COPIES, "job")
    bench.engine().start(order)
    other = THREADS.engine(EngineOrder("p", "here", tmp_path / "other", tmp_path))
    with pytest.raises(OperationFailed) as caught:
        other.start(order)
    assert (caught.value.code, caught.value.transient) == ("taken", True)
    bench.engine().stop("job")
    other.start(order)
    assert other.status()["job"].state is JobState.RUNNING
    other.close()


def test_settings_that_it_does_not_know_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed, match="threads knows no 'colour'"):
        THREADS.engine(EngineOrder("p", "here", tmp_path, tmp_path, options={"colour": "red"}))
