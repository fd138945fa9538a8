"""What once went wrong: changes that never ended, queries at two places, streams that went."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.agent.generations import Generations
from millrace.coordinator.deployment import Deployment, Placed
from millrace.coordinator.failover import GRACE_SECONDS
from millrace.coordinator.files import Files
from millrace.coordinator.kept import all_restored
from millrace.coordinator.operation import OperationState
from millrace.coordinator.phases import Phase, ordered
from millrace.coordinator.revision import Submission
from millrace.coordinator.service import NOTE_SECONDS, Clocks, Coordinator
from millrace.coordinator.sites import is_here
from millrace.coordinator.tenure import Around, Holder, take
from millrace.errors import OperationFailed, SpecError
from millrace.model.impact import Impact
from millrace.model.job import Mode
from millrace.model.pipeline import Pipeline
from millrace.model.site import Broker
from millrace.model.status import JobFacts
from millrace.model.step import Action, Kind, Step
from millrace.model.types import Secret
from millrace.ports import JobOrder, JobState, JobStatus
from millrace.ports.link import JobGoal, PipelineGoal
from millrace.spec import load_text
from millrace.testing.fakes import FakeEngine
from millrace.testing.memory_store import MemoryStore
from millrace.wire import pipeline_document
from tests.coordinator.test_losses import LEASED, PLAIN, TEXT, Land, copying

TWO = """
pipeline: p
sites: {hub: {broker: kafka}, north: {}, south: {}}
streams: {raw: {site: hub, schema: {n: int}}, out: {site: hub, schema: {n: int}}, more: {site: hub}}
jobs:
  copy: {site: north, from: raw, to: out, sql: SELECT n FROM raw WHERE}
  next: {site: south, from: out, to: more, sql: SELECT n FROM out}
"""
NO_ROOM = OperationFailed("no-room", "no room")


@pytest.fixture
def land(tmp_path: Path) -> Iterator[Land]:
    made = Land(tmp_path)
    yield made
    made.close()


def two(where: str = "", **sites: str) -> Pipeline:
    text = TWO.replace(" WHERE", where)
    for old, new in sites.items():
        text = text.replace(f"site: {old},", f"site: {new},")
    return load_text(text).required()


def grown(partitions: int, site: str) -> Pipeline:
    found = copying(site)
    out = replace(found.streams["out"], partitions=partitions)
    return replace(found, streams={**found.streams, "out": out})


def test_a_new_job_that_can_never_start_is_taken_away_again(land: Land) -> None:
    land.shops["south"].spark.broken["next"] = NO_ROOM
    undone = land.apply(Submission(two()))
    assert undone.state is OperationState.UNDONE
    assert "no room" in undone.reason


def test_more_partitions_are_not_undone_by_making_a_stream_anew(land: Land) -> None:
    land.apply(Submission(grown(1, "north")))
    kafka = land.shops["hub"].kafka
    dropped: list[str] = []
    kafka.drop = lambda stream: dropped.append(stream.name)  # type: ignore[method-assign]
    land.shops["south"].spark.broken["copy"] = NO_ROOM
    assert land.apply(Submission(grown(4, "south"))).state is OperationState.UNDONE
    assert dropped == []
    assert land.runs("north")


class Slow(FakeEngine):
    """An engine whose starts wait."""

    def start(self, order: JobOrder) -> None:
        self.begun.set()
        assert self.go.wait(30)
        super().start(order)

    begun = threading.Event()
    go = threading.Event()


def test_nobody_says_that_a_query_stands_still_that_is_being_started(land: Land) -> None:
    """Else it would start at the old place, and then here, too."""
    land.apply(Submission(copying("north")))
    slow = land.shops["south"].spark = Slow()
    begun = land.coordinator.apply(Submission(copying("south")))
    land.until(slow.begun.is_set)
    land.now += 400
    for _ in range(20):
        land.round()
    assert land.coordinator.operation(begun.id).state is OperationState.UNDOING
    assert not land.runs("north")
    slow.go.set()
    land.until(lambda: land.coordinator.operation(begun.id).state is OperationState.UNDONE)
    land.until(lambda: land.runs("north") and not land.runs("south"))


def test_a_site_that_is_back_while_a_failover_is_planned_does_not_start_it(land: Land) -> None:
    land.apply(Submission(copying("north", LEASED)))
    land.cut.add("north")
    land.now += 302
    land.until(lambda: not land.runs("north"))
    land.cut |= {"hub", "south"}  # nobody examines it for now
    land.now += GRACE_SECONDS
    land.coordinator.roster.hear(land.coordinator.roster.last("hub").report, land.now)  # type: ignore[union-attr]
    land.until(lambda: land.coordinator.board("p").busy)
    land.cut -= {"north"}
    for _ in range(20):
        land.round()
    assert not land.runs("north")
    land.cut.clear()
    land.until(lambda: not land.coordinator.board("p").busy)
    assert not land.runs("north")
    assert land.runs("hub")


def test_a_failover_takes_a_site_that_is_heard_of(land: Land) -> None:
    land.apply(Submission(copying("north", LEASED)))
    land.cut |= {"north", "hub"}
    land.now += 302 + GRACE_SECONDS
    land.until(lambda: land.runs("south"))


def test_a_change_that_waits_for_a_lost_site_gives_way_to_who_says_so(land: Land) -> None:
    land.apply(Submission(copying("north")))
    land.cut.add("north")
    land.coordinator.apply(Submission(copying("south")))
    for _ in range(10):
        land.round()
    assert land.coordinator.board("p").busy
    done = land.apply(Submission(copying("south"), lost=frozenset({"north"})))
    assert done.state is OperationState.DONE
    assert land.runs("south")


def test_there_is_no_way_back_to_a_lost_site(land: Land) -> None:
    land.apply(Submission(two()))
    land.cut.add("north")
    land.shops["south"].spark.broken["copy"] = NO_ROOM
    stuck = land.apply(Submission(two(north="south"), lost=frozenset({"north"})))
    assert stuck.state is OperationState.STUCK
    assert "no room" in stuck.reason
    again = land.apply(Submission(two(north="hub"), lost=frozenset({"north"})))
    assert again.state is OperationState.DONE


def test_positions_of_other_machines_survive_the_coordinator(land: Land) -> None:
    land.apply(Submission(copying("north")))
    land.commits("north", 7)
    land.now += NOTE_SECONDS + 1
    land.round()
    old = land.coordinator
    land.coordinator = Coordinator(old.tenure, old.clocks, joined=old.joined)
    land.cut.add("north")
    land.apply(Submission(copying("south"), lost=frozenset({"north"})))
    goal = land.coordinator.board("p").deployment.jobs["copy"].goal
    assert goal.begins == {"raw": {0: 7}}


def test_who_reads_of_a_failed_job_goes_on_when_it_is_mended(land: Land) -> None:
    land.apply(Submission(two()))
    spark = land.shops["north"].spark
    failed = replace(spark.jobs["copy"], state=JobState.FAILED, error="bad", transient=False)
    spark.jobs["copy"] = failed
    for _ in range(20):
        land.round()
    assert land.shops["south"].spark.jobs["next"].state is JobState.RUNNING
    del spark.jobs["copy"]
    assert land.apply(Submission(two(" WHERE n > 0"))).state is OperationState.DONE
    assert land.shops["south"].spark.jobs["next"].state is JobState.RUNNING


def test_a_stream_that_was_refused_once_is_tried_in_its_next_version(land: Land) -> None:
    land.apply(Submission(grown(4, "north")))
    kafka = land.shops["hub"].kafka
    real, refused = kafka.ensure, OperationFailed("refused", "not six")
    tried = threading.Event()

    def ensure(*streams: object, readers: object = ()) -> None:
        del readers
        if any(getattr(stream, "partitions", 0) == 6 for stream in streams):
            tried.set()
            raise refused
        real(*streams)  # type: ignore[arg-type]

    kafka.ensure = ensure  # type: ignore[method-assign]
    land.coordinator.patience = 5.0
    begun = land.coordinator.apply(Submission(grown(6, "north")))
    land.until(tried.is_set)
    land.now += 10
    land.until(lambda: land.coordinator.operation(begun.id).state.over)
    assert land.coordinator.operation(begun.id).state is OperationState.UNDONE
    assert land.apply(Submission(grown(8, "north"))).state is OperationState.DONE


class Odd(FakeEngine):
    """An engine that can't tell anything once it is odd."""

    odd = False

    def status(self) -> Mapping[str, JobStatus]:
        if Odd.odd:
            raise ZeroDivisionError
        return super().status()


def test_a_site_that_can_not_be_told_of_keeps_no_other_from_being_told_of(land: Land) -> None:
    land.shops["north"].spark = Odd()
    assert land.apply(Submission(copying("north"))).state is OperationState.DONE
    Odd.odd = True
    land.round()
    reports = land.coordinator.roster.reports("p")
    assert "ZeroDivisionError" in reports["north"].errors[""]
    assert reports["hub"].broker is not None
    Odd.odd = False


def test_a_start_forgets_what_was_read_to_its_end(tmp_path: Path) -> None:
    generations = Generations(tmp_path / "generations.json")
    generations.claim("q", 4)
    generations.note_drained("q", 4)
    assert Generations(generations.file).drained("q", 4)
    generations.claim("q", 4)
    assert not Generations(generations.file).drained("q", 4)


def test_what_another_pipeline_says_of_a_site_is_its_own_affair() -> None:
    here = load_text("pipeline: a\nsites: {north: {broker: kafka}}").required()
    elsewhere = load_text("pipeline: b\nsites: {north: {host: far.example}}").required()
    assert is_here("north", PipelineGoal({1: here}), frozenset())
    assert not is_here("north", PipelineGoal({1: elsewhere}), frozenset())
    assert not is_here("north", PipelineGoal({1: here}), frozenset({"north"}))


@pytest.mark.parametrize(
    ("mode", "out", "drains"),
    [
        (Mode.REAL_TIME, "{site: hub}", ()),
        (Mode.REAL_TIME, "{site: hub, topic: other}", ("raw",)),
        (Mode.REAL_TIME, "{site: hub, partitions: 3}", ("raw",)),
        (Mode.MICRO_BATCH, "{site: hub, topic: other}", ()),
    ],
)
def test_a_query_in_real_time_commits_before_it_writes_elsewhere(
    mode: Mode, out: str, drains: tuple[str, ...]
) -> None:
    """What it wrote since its last boundary would not be found there, and be written again."""
    before = copying("hub")
    text = TEXT.replace("SITE", "hub").replace("MORE", PLAIN)
    text = text.replace("out: {site: hub}", f"out: {out}")
    files = Files().with_file(1, before).with_facts(1, {"copy": JobFacts(mode, stateful=False)})
    files = files.with_file(2, load_text(text).required())
    now = Deployment().with_job("copy", Placed("hub", JobGoal(1, 1, 1)))
    step = Step(Action.CHANGE, Kind.JOB, "copy", "hub", Impact.RESTART)
    after = ordered(now, step, Phase.STOP, files, 2, None)
    assert after.jobs["copy"].goal.drains == drains


def test_a_file_that_is_refused_today_does_not_keep_a_coordinator_from_starting() -> None:
    """It was accepted once: by rules of that time, which knew no names of topics."""
    store = MemoryStore()
    around = Around(lambda _: False, lambda: 0.0, lambda _: None)
    tenure = take(store, Holder("here", 1, 0.0), around)
    known = copying("north")
    odd = replace(known.streams["raw"], topic="no topic; at all")
    secret = Secret(secret="kept elsewhere")  # noqa: S106 - a wrong name
    hub = replace(known.sites["hub"], broker=Broker(options={"sasl.password": secret}))
    file = replace(known, streams={**known.streams, "raw": odd}, sites={**known.sites, "hub": hub})
    with pytest.raises(SpecError):
        load_text(json.dumps(pipeline_document(file))).required()
    Coordinator(tenure, Clocks(lambda: 0.0, lambda: 0.0)).apply(Submission(file))
    (board,) = all_restored(store, 0.0)
    assert pipeline_document(board.files[board.newest]) == pipeline_document(file)
