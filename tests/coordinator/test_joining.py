"""Who newly reads a stream that was there begins where it ended when the change began."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from millrace.coordinator.board import Board
from millrace.coordinator.documents import operation_document, operation_of
from millrace.coordinator.kept import kept, restored
from millrace.coordinator.operation import Operation, OperationState
from millrace.coordinator.revision import Submission
from millrace.ports import JobState
from millrace.ports.link import JobGoal, JobReport, PipelineReport
from millrace.spec import load_text
from millrace.testing.memory_store import MemoryStore
from millrace.wire import plan_document
from tests.coordinator.test_starts import CHAIN, FUSED, ONE, Lab, lab, of

__all__ = ["lab"]  # a fixture

TWO = """
streams: {raw: {schema: {n: int}}, other: {schema: {n: int}}, out: {}}
jobs:
  fill: {from: raw, to: other, sql: SELECT n FROM raw}
  one: {from: raw, to: out, sql: SELECT n FROM raw}
"""
NEW = "  two: {from: other, sql: SELECT n FROM other}\n"
BOTH = TWO.replace("one: {from: raw", "one: {from: [raw, other]")


def test_a_new_reader_begins_where_its_stream_ended(lab: Lab) -> None:
    lab.apply(TWO)
    lab.ran("one", raw=7)
    lab.ends = {"raw": {0: 9}, "other": {0: 4, 2: 1}}
    assert lab.apply(TWO + NEW) == {"fill": 1, "one": 1, "two": 1}
    assert lab.begins("two") == {"other": {0: 4, 2: 1}}
    assert lab.goal("two").since is None
    assert lab.asked == [(2, "other")]


def test_a_stream_that_only_others_write_was_there_too(lab: Lab) -> None:
    """No job followed it before."""
    table = "raw, to: out, sql", "[raw, {stream: other, table: true}], to: out, sql"
    looked_up = TWO.replace("  fill: {from: raw, to: other, sql: SELECT n FROM raw}\n", "")
    looked_up = looked_up.replace(*table)
    lab.apply(looked_up)
    lab.ends = {"other": {0: 4}}
    lab.apply(looked_up + NEW)
    assert lab.begins("two") == {"other": {0: 4}}


def test_a_stream_that_holds_nothing_is_read_from_its_first_record(lab: Lab) -> None:
    """It is named all the same: `latest` would leave out what comes before the job is up."""
    lab.apply(TWO)
    lab.apply(TWO + NEW.replace("from: other", "from: {stream: other, start: latest}"))
    assert lab.begins("two") == {"other": {}}


def test_a_stream_that_is_new_in_the_file_is_read_from_its_first_record(lab: Lab) -> None:
    lab.apply(ONE)
    lab.ends = {"raw": {0: 9}, "other": {0: 4}}
    lab.apply(TWO + NEW)
    assert lab.begins("two") == {}
    assert lab.begins("fill") == {"raw": {0: 9}}
    assert lab.asked == [(2, "raw")]


def test_one_more_stream_is_read_from_its_end_and_the_others_go_on(lab: Lab) -> None:
    lab.apply(TWO)
    lab.ran("one", raw=7)
    lab.ends = {"raw": {0: 9}, "other": {0: 4}}
    assert lab.apply(BOTH) == {"fill": 1, "one": 2}
    assert lab.begins("one") == {"raw": {0: 7}, "other": {0: 4}}
    assert lab.goal("one").since == 1_000_000
    again = BOTH.replace("SELECT n", "SELECT n + 1 AS n")
    assert lab.apply(again, stateful=True)["one"] == 2
    assert lab.begins("one") == {"raw": {0: 7}, "other": {0: 4}}, "it has committed nothing since"


@pytest.mark.parametrize(("start", "begins"), [("earliest", {}), ("latest", {"other": {0: 4}})])
def test_what_the_file_says_of_the_start_comes_first(
    lab: Lab, start: str, begins: dict[str, dict[int, int]]
) -> None:
    lab.apply(TWO)
    lab.ends = {"other": {0: 4}}
    lab.apply(TWO + NEW.replace("from: other", f"from: {{stream: other, start: {start}}}"))
    assert lab.begins("two") == begins


def test_a_table_has_no_position(lab: Lab) -> None:
    lab.apply(TWO)
    lab.ends = {"raw": {0: 9}, "other": {0: 4}}
    table = "from: [raw, {stream: other, table: true}]"
    lab.apply(TWO + NEW.replace("from: other", table))
    assert lab.begins("two") == {"raw": {0: 9}}
    assert lab.asked == [(2, "raw")]


def test_jobs_go_into_a_query_that_runs_and_out_of_it() -> None:
    """How far the other query is was told last; it goes on meanwhile, so no end is far enough."""
    lab = Lab(rests=False, keeps=False)
    more = CHAIN.replace("from: mid", "from: [mid, more]")
    fused = more.replace("mid: {}", "mid: {transient: true}")
    lab.apply(more)
    lab.ends = {"raw": {0: 50}, "more": {0: 60}}
    lab.ran("a", raw=9)
    lab.ran("b", mid=5, more=2)
    assert lab.apply(fused) == {"a": 2}
    assert lab.begins("a") == {"raw": {0: 9}, "more": {0: 2}}
    lab.ran("a", raw=20, more=8)
    assert lab.apply(more) == {"a": 3, "b": 2}
    assert lab.begins("b") == {"more": {0: 8}}
    assert lab.begins("a") == {"raw": {0: 20}}


def test_a_job_goes_on_where_its_query_was_that_is_gone() -> None:
    """The query has the name of its first job, which is not in the file any more."""
    lab = Lab(rests=False, keeps=False)
    fused = FUSED.replace("from: mid", "from: [mid, more]")
    lab.apply(fused)
    lab.ends = {"more": {0: 60}}
    lab.ran("a", raw=9, more=4)
    left = "\n".join(line for line in fused.splitlines() if not line.startswith("  a: "))
    left = left.replace("raw: {schema: {n: int}}, ", "")
    left = left.replace("{transient: true}", "{schema: {n: int}}")
    assert lab.apply(left) == {"b": 1}
    assert lab.begins("b") == {"more": {0: 4}}


LINE = """
streams: {raw: {schema: {n: int}}, mid: {schema: {n: int}}, out: {}}
jobs:
  a: {from: raw, to: mid, sql: SELECT n FROM raw}
  b: {from: mid, to: out, sql: SELECT n FROM mid}
"""
SLIPPED = LINE.replace("out: {}}", "more: {schema: {n: int}}, out: {}}").replace(
    "  b: {from: mid, to: out, sql: SELECT n FROM mid}",
    "  b: {from: more, to: out, sql: SELECT n FROM more}\n"
    "  x: {from: mid, to: more, sql: SELECT n FROM mid}",
)


def test_who_takes_over_begins_where_the_other_stopped() -> None:
    """Between the beginning of the change and the stop of the one that leaves it read on."""
    lab = Lab(rests=False, keeps=False)
    lab.apply(LINE)
    lab.ends = {"mid": {0: 4}}
    lab.ran("b", mid=7)
    lab.apply(SLIPPED)
    assert lab.begins("x") == {"mid": {0: 7}}
    assert lab.begins("b") == {}, "a new stream from its first record"
    lab.ends = {"mid": {0: 10}}
    lab.ran("x", mid=12)
    lab.ran("b", more=12)
    lab.apply(LINE)
    assert lab.begins("b") == {"mid": {0: 12}}


THIRD = "  c: {from: mid, sql: SELECT n FROM mid}\n"


def test_of_several_that_leave_the_one_that_read_least_counts() -> None:
    lab = Lab(rests=False, keeps=False)
    both = f"{LINE}{THIRD}"
    lab.apply(both)
    lab.ends = {"mid": {0: 4}}
    lab.ran("b", mid=9)
    lab.ran("c", mid=7)
    lab.apply(SLIPPED)
    assert lab.begins("x") == {"mid": {0: 7}}


@pytest.mark.parametrize("stateful", [False, True])
def test_a_log_that_is_made_anew_is_read_from_its_first_record(stateful: bool) -> None:
    lab = Lab(rests=False, keeps=False)
    wide = BOTH.replace("other: {", "other: {partitions: 4, ")
    lab.apply(wide, stateful=stateful)
    lab.ran("one", raw=7, other=3)
    lab.ends = {"raw": {0: 9}, "other": {0: 4}}
    narrow = wide.replace("partitions: 4", "partitions: 2")
    assert lab.apply(narrow, stateful=stateful) == {"fill": 1, "one": 2}
    assert lab.begins("one") == {"raw": {0: 7}}
    assert lab.asked == []


def test_without_other_streams_nothing_is_left_of_its_positions() -> None:
    lab = Lab(rests=False, keeps=False)
    wide = ONE.replace("raw: {", "raw: {partitions: 4, ")
    lab.apply(wide)
    lab.ran("one", raw=7)
    assert lab.apply(wide.replace("4", "2")) == {"one": 2}
    assert lab.begins("one") == {}
    assert lab.goal("one").since is None
    lab.ran("one", raw=5)
    assert lab.apply(wide.replace("4", "3")) == {"one": 2}, "more partitions leave the log as it is"


def test_who_newly_reads_a_log_that_is_made_anew_begins_at_its_first_record() -> None:
    lab = Lab(rests=False, keeps=False)
    wide = TWO.replace("other: {", "other: {partitions: 4, ")
    lab.apply(wide)
    lab.ends = {"other": {0: 4}}
    lab.apply(wide.replace("4", "2") + NEW)
    assert lab.begins("two") == {}


def test_where_streams_are_kept_a_log_is_not_made_anew() -> None:
    lab = Lab(rests=True)
    wide = ONE.replace("raw: {", "raw: {partitions: 4, ")
    lab.apply(wide)
    lab.ran("one", raw=7)
    assert lab.apply(wide.replace("4", "2")) == {"one": 1}


@dataclass
class Coordinated(Lab):
    """A lab whose coordinator may end, and begins again with what was kept; a job may fail."""

    rests: bool = False
    keeps: bool = False
    store: MemoryStore = field(default_factory=MemoryStore)
    before: Board | None = None
    #: A query that can't start by a file.
    broken: tuple[str, int] = ("", 0)

    def job(self, name: str, goal: JobGoal) -> JobReport:
        if (name, goal.revision) == self.broken and goal.running:
            return JobReport(goal.generation, JobState.FAILED, error="bad", transient=False)
        return super().job(name, goal)

    def tick(self, now: float = 0.0) -> None:
        self.board, _ = self.board.ticked(self.heard, now, 60.0)

    def submit(self, text: str) -> None:
        wanted = Submission(of(text), state_loss=True)
        self.board, _ = self.board.submitted(wanted)

    def again(self) -> None:
        """End and begin anew; sites are heard of again from then on."""
        self.store.commit(kept(self.board, self.before))
        self.before = self.board = restored(self.store, "p", 0.0)
        self.heard = {}

    @property
    def state(self) -> OperationState:
        assert self.board.operation is not None
        return self.board.operation.state


def test_the_next_coordinator_knows_where_streams_ended() -> None:
    lab = Coordinated()
    lab.apply(TWO)
    lab.ends = {"other": {0: 4}}
    lab.submit(TWO + NEW)
    before = lab.board.deployment
    while not (lab.board.operation and lab.board.operation.measuring):
        lab.listen()
        lab.tick()
    assert lab.board.deployment == before, "nothing is ordered before that is known"
    lab.again()
    lab.listen()
    lab.tick()
    assert lab.board.operation is not None
    assert lab.board.operation.ends == {"other": {0: 4}}
    lab.again()
    for _ in range(20):
        lab.listen()
        lab.tick()
    assert lab.state is OperationState.DONE
    assert lab.begins("two") == {"other": {0: 4}}, "not where it ended when somebody asked again"


def test_an_operation_is_kept_with_what_it_knows_of_streams() -> None:
    ends, remade = {"other": {0: 4, 10: 2}, "raw": {}}, frozenset({"out"})
    known = Operation("p-2", "p", 1, 2, state=OperationState.RUNNING, ends=ends, remade=remade)
    document = json.loads(json.dumps(operation_document(known)))
    assert operation_of(document, plan_document(known.plan), 0.0) == known


def test_a_log_that_was_made_anew_before_a_change_is_undone_is_read_from_its_first_record() -> None:
    """The folder of before has positions in a log that is gone."""
    lab = Coordinated()
    wide = BOTH.replace("other: {", "other: {partitions: 4, ")
    lab.apply(wide)
    lab.ran("one", raw=7, other=3)
    lab.broken = ("fill", 2)
    lab.submit(wide.replace("partitions: 4", "partitions: 2"))
    for _ in range(100):
        lab.listen()
        lab.tick()
    assert lab.state is OperationState.UNDONE
    assert lab.goal("one").revision == 1
    assert lab.goal("one").folder > 1
    assert lab.begins("one") == {"raw": {0: 7}}
    assert lab.goal("fill").folder == 1, "all that it reads is as it was"


ATTACHED = """
pipeline: p
sites: {here: {broker: kafka}, far: {broker: {kind: kafka, address: "far:9092"}}}
streams: {raw: {site: here, schema: {n: int}}, other: {site: far, schema: {n: int}}}
jobs:
  fill: {site: here, from: raw, to: other, sql: SELECT n FROM raw}
"""


@pytest.mark.parametrize(("lost", "asked"), [((), {"far"}), (("far",), {"here"})])
def test_the_site_of_a_stream_is_asked_or_who_reaches_its_broker(
    lost: tuple[str, ...], asked: set[str]
) -> None:
    lab = Coordinated()
    lab.board, _ = lab.board.submitted(Submission(load_text(ATTACHED).required()))
    more = load_text(ATTACHED + NEW.replace("from", "site: here, from"))
    for _ in range(20):
        lab.listen()
        lab.tick()
    wanted = Submission(more.required(), lost=frozenset(lost))
    lab.board, _ = lab.board.submitted(wanted)
    while not (lab.board.operation and lab.board.operation.measuring):
        lab.listen()
        lab.tick()
    goals = lab.board.goals(lab.heard)
    assert {site for site, goal in goals.items() if goal.measured} == asked
    assert all(1 in goals[site].revisions for site in asked)


def test_what_was_said_for_another_change_does_not_count() -> None:
    lab = Coordinated()
    lab.apply(TWO)
    stale = PipelineReport(joined=1, ends={("other", 1): {0: 2}})
    lab.submit(TWO + NEW)
    for _ in range(5):
        lab.listen()
        told = lab.heard["here"]
        lab.heard["here"] = PipelineReport(
            told.broker,
            told.streams,
            examined=told.examined,
            facts=told.facts,
            joined=stale.joined,
            ends=stale.ends,
        )
        lab.tick()
    assert lab.board.operation is not None
    assert lab.board.operation.measuring


def test_a_change_is_refused_where_nobody_says_in_time() -> None:
    lab = Coordinated()
    lab.apply(TWO)
    lab.submit(TWO + NEW)
    before = lab.board.deployment
    while not (lab.board.operation and lab.board.operation.measuring):
        lab.listen()
        lab.tick()
    lab.heard["here"] = PipelineReport("broker", errors={"other": "no broker answers"})
    lab.tick(100.0)
    assert lab.board.operation is not None
    assert lab.state is OperationState.REFUSED
    assert "other" in lab.board.operation.reason
    assert "no broker answers" in lab.board.operation.reason
    assert lab.board.deployment == before
    assert lab.board.goals({})["here"].joined is None
    lab.ends = {"other": {0: 4}}
    lab.apply(TWO + NEW)
    assert lab.begins("two") == {"other": {0: 4}}
