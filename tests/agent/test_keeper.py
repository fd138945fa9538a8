"""Keepers of three sites and a coordinator's board, on the fakes that are shipped."""
# ruff: noqa: ARG002 - fakes have the arguments of what they stand for

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from millrace.agent.generations import Generations
from millrace.agent.keeper import Keeper
from millrace.agent.queries import Queries
from millrace.coordinator.board import Board
from millrace.coordinator.operation import OperationState
from millrace.coordinator.revision import Submission
from millrace.errors import OperationFailed
from millrace.model.pipeline import Pipeline
from millrace.model.stream import Stream
from millrace.plan.fuse import as_queries
from millrace.ports import JobState, Progress, Record
from millrace.ports.link import JobGoal, PipelineGoal, PipelineReport
from millrace.spec import load_text
from millrace.testing.fakes import FakeBroker, FakeEngine
from millrace.testing.workshop import FakeWorkshop
from tests.coordinator.test_histories import valid_world
from tests.plan.test_plan_properties import SITES

LIMIT = 30.0


@dataclass
class Shop(FakeWorkshop):
    """A site of fakes that knows where streams end; `others` are those of all sites."""

    others: dict[str, Shop] = field(default_factory=dict)

    def ends(
        self, file: Pipeline, stream: str, around: object, query: str | None = None
    ) -> dict[int, int]:
        there = self.others[file.streams[stream].site or ""].kafka.log
        return {part: span.end for part, span in there.ends(file.streams[stream].address).items()}

    def progress(self, file: Pipeline, query: str, goal: JobGoal) -> dict[str, Progress]:
        known = self.spark.jobs.get(query)
        return {query: known.progress} if known is not None else {}


@dataclass
class Stage:
    """A coordinator's board over sites of fakes, in real time."""

    pool: ThreadPoolExecutor
    place: Path
    board: Board = field(default_factory=lambda: Board.empty("p"))
    shops: dict[str, Shop] = field(default_factory=dict)
    keepers: dict[str, Keeper] = field(default_factory=dict)
    heard: dict[str, PipelineReport] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for site in SITES:
            self.shops[site] = Shop(site, self.place, others=self.shops)
            self.keepers[site] = self.keeper(site)

    def keeper(self, site: str) -> Keeper:
        generations = Generations(self.place / site / "generations.json")
        queries = Queries(self.shops[site], generations)
        return Keeper(site, self.shops[site], queries, self.pool, time.monotonic)

    def apply(self, wanted: Pipeline) -> OperationState:
        self.board, _ = self.board.submitted(Submission(wanted, state_loss=True))
        return self.finish()

    def finish(self) -> OperationState:
        until = time.monotonic() + LIMIT
        while self.board.busy:
            assert time.monotonic() < until, self.board.operation
            self.round()
        assert self.board.operation is not None
        return self.board.operation.state

    def round(self) -> None:
        goals = self.board.goals(self.heard)
        reports: dict[str, PipelineReport] = {}
        for site, keeper in self.keepers.items():
            keeper.tell(goals.get(site, PipelineGoal()))
            keeper.tick()
            reports[site] = keeper.report()
        self.heard = reports
        self.board, _ = self.board.ticked(reports, time.monotonic(), LIMIT / 2)
        time.sleep(0.001)

    def running(self) -> set[tuple[str, str]]:
        return {
            (name, site)
            for site, shop in self.shops.items()
            for name, status in shop.spark.jobs.items()
            if status.state is JobState.RUNNING
        }


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with ThreadPoolExecutor(8) as pool:
        yield Stage(pool, tmp_path)


def wanted_jobs(pipeline: Pipeline) -> set[tuple[str, str]]:
    return {(name, job.site or "") for name, job in as_queries(pipeline).jobs.items()}


@pytest.mark.parametrize("seed", range(10))
def test_sites_become_what_files_say(stage: Stage, seed: int) -> None:
    chance = random.Random(seed)
    wanted: Pipeline | None = None
    for _ in range(4):
        wanted = valid_world(chance, wanted)
        assert stage.apply(wanted) is OperationState.DONE
        assert stage.running() == wanted_jobs(wanted)
        streams = {
            (site, name)
            for site, shop in stage.shops.items()
            for name in shop.kafka.status().streams
        }
        stored = as_queries(wanted).streams.values()
        assert streams == {(stream.site, stream.address) for stream in stored}


ROADS = """
pipeline: p
sites: {s0: {broker: kafka}, s1: {broker: kafka}, s2: {broker: kafka}}
streams: {raw: {site: s0, schema: {n: int}}, out: {site: s1, schema: {n: int}}}
jobs: {copy: {site: SITE, from: raw, to: out, sql: SELECT n FROM raw}}
"""


def roads(site: str) -> Pipeline:
    return load_text(ROADS.replace("SITE", site)).required()


def test_a_move_that_fails_leaves_the_old_place_running(stage: Stage) -> None:
    assert stage.apply(roads("s0")) is OperationState.DONE
    stage.shops["s1"].spark.broken["copy"] = OperationFailed("no", "no room there", "make some")
    assert stage.apply(roads("s1")) is OperationState.UNDONE
    assert stage.board.operation is not None
    assert "no room there" in stage.board.operation.reason
    assert stage.running() == {("copy", "s0")}
    stage.shops["s1"].spark.broken.clear()
    assert stage.apply(roads("s1")) is OperationState.DONE
    assert stage.running() == {("copy", "s1")}


def test_what_fails_for_a_while_is_tried_again(stage: Stage) -> None:
    shop = stage.shops["s0"]
    shop.spark.broken["copy"] = OperationFailed("busy", "not yet", transient=True)
    stage.board, _ = stage.board.submitted(Submission(roads("s0")))
    for _ in range(100):
        stage.round()
    assert stage.running() == set()
    shop.spark.broken.clear()
    assert stage.finish() is OperationState.DONE
    assert stage.running() == {("copy", "s0")}


def test_an_agent_that_begins_anew_refuses_orders_that_are_over(stage: Stage) -> None:
    assert stage.apply(roads("s0")) is OperationState.DONE
    late = stage.board.goals({})["s0"]
    assert stage.apply(roads("s1")) is OperationState.DONE
    assert stage.apply(roads("s0")) is OperationState.DONE
    keeper = stage.keepers["s0"] = stage.keeper("s0")
    keeper.tell(late)
    until = time.monotonic() + LIMIT
    while (found := keeper.report().jobs["copy"]).state is not JobState.FAILED:
        assert time.monotonic() < until
        keeper.tick()
        time.sleep(0.01)
    assert "later order" in found.error
    assert not found.transient


def test_untouched_jobs_are_not_started_again(stage: Stage) -> None:
    assert stage.apply(roads("s0")) is OperationState.DONE
    starts = stage.shops["s0"].spark.starts
    for _ in range(3):
        assert stage.apply(roads("s0")) is OperationState.DONE
    assert stage.shops["s0"].spark.starts == starts


def test_a_job_that_its_engine_does_not_know_any_more_is_started(stage: Stage) -> None:
    """It was set apart by a start of another job of its driver."""
    assert stage.apply(roads("s0")) is OperationState.DONE
    engine = stage.shops["s0"].spark
    del engine.jobs["copy"]
    until = time.monotonic() + LIMIT
    while stage.running() != {("copy", "s0")}:
        assert time.monotonic() < until
        stage.round()
    assert engine.starts == 2


def test_a_job_that_the_engine_refuses_changes_nothing(stage: Stage) -> None:
    assert stage.apply(roads("s0")) is OperationState.DONE
    stage.shops["s1"].spark.refused["copy"] = OperationFailed("bad-query", "no column n")
    assert stage.apply(roads("s1")) is OperationState.REFUSED
    assert stage.board.operation is not None
    assert "no column n" in stage.board.operation.reason
    assert stage.running() == {("copy", "s0")}


def test_a_broker_that_ended_is_started_again(stage: Stage) -> None:
    assert stage.apply(roads("s0")) is OperationState.DONE
    kafka = stage.shops["s0"].kafka
    kafka.stop()
    until = time.monotonic() + LIMIT
    while not kafka.status().up:
        assert time.monotonic() < until
        stage.round()


def test_a_new_reader_begins_where_its_stream_ended(stage: Stage) -> None:
    """At another site than the stream's, which is the one that is asked."""
    assert stage.apply(roads("s0")) is OperationState.DONE
    stage.shops["s0"].kafka.log.write("raw", [Record(b"1")] * 5)
    late = "  late: {site: s2, from: raw, sql: SELECT n FROM raw}"
    text = ROADS.replace("SITE", "s0").replace("jobs: {copy: ", "jobs:\n  copy: ")
    wanted = load_text(text.replace("raw}}\n", "raw}\n") + late).required()
    assert stage.apply(wanted) is OperationState.DONE
    assert stage.board.deployment.jobs["late"].goal.begins == {"raw": {0: 5}}
    assert stage.keepers["s0"].goal.measured == frozenset()


def test_where_a_stream_ends_is_found_once_for_each_file_that_asks(
    stage: Stage, tmp_path: Path
) -> None:
    """Who was away may be asked for the next one without having been told that the last is over."""
    shop, raw = FakeWorkshop("s0", tmp_path), ("raw", 1)
    queries = Queries(shop, Generations(tmp_path / "generations.json"))
    keeper = Keeper("s0", shop, queries, stage.pool, time.monotonic)

    def found(joined: int) -> dict[int, int]:
        things = frozenset({raw})
        files = {1: roads("s0")}
        keeper.tell(PipelineGoal(files, serving=1, streams=things, joined=joined, measured=things))
        until = time.monotonic() + LIMIT
        while raw not in (report := keeper.report()).ends:
            assert time.monotonic() < until, report
            keeper.tick()
            time.sleep(0.001)
        assert report.joined == joined
        return dict(report.ends[raw])

    assert found(2) == {}, "it is made first, and holds nothing"
    shop.kafka.log.write("raw", [Record(b"1")] * 3)
    assert found(2) == {}
    assert found(3) == {0: 3}
    keeper.tell(PipelineGoal())
    assert keeper.report().joined is None
    assert keeper.report().ends == {}


class Slow(FakeEngine):
    """An engine whose stop takes until it is ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = threading.Event()

    def stop(self, job: str, ends: object = None) -> None:
        assert self.ended.wait(LIMIT)
        raise OperationFailed("gone", "the driver is gone", transient=True)

    def kill(self, grace: float = 0.0) -> None:
        super().kill(grace)
        self.ended.set()


def test_a_stop_that_takes_too_long_when_a_lease_has_run_out_ends_the_engine(
    tmp_path: Path,
) -> None:
    """The query may run elsewhere soon: here it must not any more."""
    shop, slow, silent = FakeWorkshop("s0", tmp_path), Slow(), [0.0]
    shop.spark = slow
    file = load_text(LEASED).required()
    queries = Queries(
        shop, Generations(tmp_path / "g.json"), unheard=lambda: silent[0], cut_seconds=0.1
    )
    queries.goal = PipelineGoal({1: file}, jobs={"copy": JobGoal(1, 1, 1)})
    start = queries.wrong("copy", {})
    assert start is not None
    start()
    assert slow.status()["copy"].state is JobState.RUNNING
    silent[0] = 61.0
    give_up = queries.wrong("copy", queries.statuses())
    assert give_up is not None
    with pytest.raises(OperationFailed, match="driver is gone"):
        give_up()
    assert slow.status()["copy"].state is JobState.FAILED


LEASED = """
pipeline: p
sites: {s0: {broker: kafka}}
streams: {raw: {site: s0, schema: {n: int}}, out: {site: s0}}
jobs: {copy: {site: s0, from: raw, to: out, sql: SELECT n FROM raw, failover: 1 min}}
"""


class Counting(FakeBroker):
    """A broker that knows which streams were made together."""

    def __init__(self) -> None:
        super().__init__()
        self.together: list[list[str]] = []

    def ensure(self, *streams: Stream, readers: Sequence[str] = ()) -> None:
        self.together.append([stream.name for stream in streams])
        super().ensure(*streams, readers=readers)


def goal_of(names: Sequence[str], partitions: int = 2) -> PipelineGoal:
    streams = ", ".join(f"{name}: {{partitions: {partitions}, format: raw}}" for name in names)
    jobs = ", ".join(f"j{name}: {{from: {name}, to: out, sql: x}}" for name in names)
    text = f"pipeline: p\nsites: {{a: {{broker: kafka}}}}\nstreams: {{{streams}, out: {{}}}}"
    file = load_text(f"{text}\njobs: {{{jobs}}}").required()
    return PipelineGoal(
        serving=1, streams=frozenset((name, 1) for name in names), revisions={1: file}
    )


def test_streams_are_made_at_once_and_a_bad_one_keeps_no_other_back(stage: Stage) -> None:
    site = SITES[0]
    broker = stage.shops[site].kafka = Counting()
    keeper = stage.keepers[site]
    broker.ensure(Stream("s1", partitions=4))  # it can't have fewer
    names = [f"s{number}" for number in range(5)]
    keeper.tell(goal_of(names))
    until = time.monotonic() + LIMIT
    while len(keeper.report().streams) < 4 or not keeper.report().errors:
        assert time.monotonic() < until, (broker.together, keeper.report())
        keeper.tick()
        time.sleep(0.001)
    assert broker.together[1] == names, "all at once first"
    assert keeper.report().errors.keys() == {"s1"}
    assert {name for name, _ in keeper.report().streams} == set(names) - {"s1"}
