"""Where queries go on when their file was changed, by what sites tell of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from millrace.coordinator.board import Board
from millrace.coordinator.documents import deployment_document, deployment_of
from millrace.coordinator.operation import OperationState
from millrace.coordinator.revision import Submission
from millrace.model.job import Mode
from millrace.model.pipeline import Pipeline
from millrace.model.status import JobFacts
from millrace.plan.fuse import as_queries
from millrace.ports import JobState, Progress
from millrace.ports.link import JobGoal, JobReport, PipelineGoal, PipelineReport, Thing
from millrace.spec import load_text

HEAD = "pipeline: p\nsites: {here: {broker: kafka}, there: {}}\ndefaults: {streams: {site: here}, "
HEAD += "jobs: {site: here}}\n"
ONE = """
streams: {raw: {schema: {n: int}}, out: {}}
jobs:
  one: {from: raw, to: out, sql: SELECT n FROM raw}
"""
CHAIN = """
streams: {raw: {schema: {n: int}}, mid: {}, out: {}}
jobs:
  a: {from: raw, to: mid, sql: SELECT n FROM raw}
  b: {from: mid, to: out, sql: SELECT n FROM mid}
"""
FUSED = CHAIN.replace("mid: {}", "mid: {transient: true}")
#: What a query had committed by, in seconds.
AT = 1000.0


def of(text: str) -> Pipeline:
    if "more]" in text:
        text = text.replace("streams: {", "streams: {more: {schema: {n: int}}, ")
    return load_text(HEAD + text, "p").required()


@dataclass
class Lab:
    """A pipeline whose sites do at once what they are told; it is changed while it runs, or not."""

    rests: bool
    #: Whether streams stay that are no longer in the file.
    keeps: bool = True
    board: Board = field(default_factory=lambda: Board.empty("p"))
    heard: dict[str, PipelineReport] = field(default_factory=dict)
    facts: JobFacts = field(default_factory=JobFacts)
    #: By query: how far it is in each stream.
    at: dict[str, dict[str, dict[int, int]]] = field(default_factory=dict)
    #: By address: where each stream ends, and what was asked, with the number of the file.
    ends: dict[str, dict[int, int]] = field(default_factory=dict)
    asked: list[tuple[int, str]] = field(default_factory=list)

    def apply(
        self, text: str, *, stateful: bool = False, mode: Mode = Mode.MICRO_BATCH
    ) -> dict[str, int]:
        """Change the pipeline and return the folders of its queries."""
        self.facts = JobFacts(mode, stateful=stateful)
        if self.rests:
            self.board = self.board.at_rest()
            self.listen()
            self.board = self.board.noted(self.heard)
        wanted = Submission(of(text), state_loss=True, keeps=self.keeps, anew=self.rests)
        self.board, _ = self.board.submitted(wanted)
        for _ in range(100):
            self.listen()
            self.board, _ = self.board.ticked(self.heard, 0.0, 60.0)
        assert self.board.operation is not None
        assert self.board.operation.state is OperationState.DONE, self.board.operation
        return {name: placed.goal.folder for name, placed in self.board.deployment.jobs.items()}

    def listen(self) -> None:
        goals = self.board.goals(self.heard)
        self.heard = {site: self.report(goal) for site, goal in goals.items()}

    def report(self, goal: PipelineGoal) -> PipelineReport:
        facts: dict[str, JobFacts] = {}
        if goal.examined is not None:
            queries = as_queries(goal.revisions[goal.examined]).jobs
            members = (one.name for q in goal.queries for one in (queries[q], *queries[q].members))
            facts = dict.fromkeys(members, self.facts)
        return PipelineReport(
            "broker" if goal.serving is not None else None,
            goal.streams,
            goal.dropped,
            {name: self.job(name, job) for name, job in goal.jobs.items()},
            examined=goal.examined,
            facts=facts,
            offered=dict.fromkeys(goal.offers, "0" * 64),
            joined=goal.joined,
            ends=self.measured(goal),
        )

    def measured(self, goal: PipelineGoal) -> dict[Thing, dict[int, int]]:
        """Say where streams end; a moment later each is longer."""
        found = {}
        for name, number in sorted(goal.measured):
            address = goal.revisions[number].streams[name].address
            self.asked.append((goal.joined or 0, address))
            found[name, number] = dict(self.ends.get(address, {}))
            self.ends[address] = {part: end + 1 for part, end in found[name, number].items()}
        return found

    def job(self, name: str, goal: JobGoal) -> JobReport:
        state = JobState.RUNNING if goal.running else JobState.STOPPED
        progress = Progress(positions=self.at.get(name, {}), at=AT)
        return JobReport(goal.generation, state, progress=progress, running=goal.running)

    def ran(self, job: str, **positions: int) -> None:
        """Let a query commit one partition of each stream up to a position."""
        self.at[job] = {stream: {0: at} for stream, at in positions.items()}

    def goal(self, job: str) -> JobGoal:
        return self.board.deployment.jobs[job].goal

    def begins(self, job: str) -> Mapping[str, Mapping[int, int]]:
        """Where a query was to begin, by address; what it got done after that is its own."""
        self.at.pop(job, None)
        return self.goal(job).begins


@pytest.fixture(params=["runs", "rests"])
def lab(request: pytest.FixtureRequest) -> Lab:
    return Lab(request.param == "rests")


@pytest.fixture
def resting() -> Lab:
    return Lab(rests=True)


@pytest.mark.parametrize("stateful", [False, True])
def test_other_code_over_the_same_streams_goes_on_where_it_is(lab: Lab, stateful: bool) -> None:
    assert lab.apply(ONE) == {"one": 1}
    lab.ran("one", raw=7)
    assert lab.apply(ONE.replace("SELECT n", "SELECT n + 1 AS n"), stateful=stateful) == {"one": 1}
    assert lab.goal("one").revision == 2


def test_a_stream_of_another_name_at_the_same_place_is_the_same(lab: Lab) -> None:
    lab.apply(ONE)
    lab.ran("one", raw=7)
    renamed = ONE.replace("raw: {", "cars: {topic: raw, ").replace("from: raw", "from: cars")
    assert lab.apply(renamed.replace("FROM raw", "FROM cars")) == {"one": 1}
    lab.ran("one", cars=8)
    assert lab.apply(ONE.replace("raw: {", "raw: {topic: other, ")) == {"one": 2}
    assert lab.begins("one") == {}


def test_positions_follow_a_stream_under_another_name(lab: Lab) -> None:
    """They are known by names of the old file, and begin by addresses in a new folder."""
    renamed = ONE.replace("raw: {", "cars: {topic: raw, ").replace("from: raw", "from: cars")
    lab.apply(renamed.replace("FROM raw", "FROM cars"))
    lab.ran("one", cars=8)
    assert lab.apply(ONE.replace("from: raw", "from: [raw, more]")) == {"one": 2}
    assert lab.begins("one") == {"raw": {0: 8}}


def test_other_streams_are_a_new_folder_with_the_positions_that_stay(lab: Lab) -> None:
    lab.apply(ONE)
    lab.ran("one", raw=7)
    assert lab.apply(ONE.replace("from: raw", "from: [raw, more]")) == {"one": 2}
    assert lab.begins("one") == {"raw": {0: 7}}
    assert lab.goal("one").since == 1_000_000


def test_where_a_query_began_stays_known_until_it_commits(lab: Lab) -> None:
    """It may be changed again before it has done anything in its new folder."""
    lab.apply(ONE)
    lab.ran("one", raw=7)
    two = ONE.replace("from: raw", "from: [raw, more]")
    lab.apply(two)
    assert lab.begins("one") == {"raw": {0: 7}}
    assert lab.apply(two.replace("SELECT n", "SELECT n + 1 AS n"), stateful=True) == {"one": 2}
    assert lab.begins("one") == {"raw": {0: 7}}
    assert lab.apply(ONE) == {"one": 3}
    assert lab.begins("one") == {"raw": {0: 7}}


def test_several_inputs_may_change_their_places_in_new_code(lab: Lab) -> None:
    """Spark knows inputs by their places in the code; state can't go along, positions can."""
    two = ONE.replace("from: raw", "from: [raw, more]")
    lab.apply(two)
    lab.ran("one", raw=7, more=3)
    assert lab.apply(two) == {"one": 1}
    turned = two.replace("FROM raw", "FROM more UNION ALL SELECT n FROM raw")
    assert lab.apply(turned, stateful=True) == {"one": 1}
    assert lab.apply(two) == {"one": 2}
    assert lab.begins("one") == {"raw": {0: 7}, "more": {0: 3}}


def test_what_ran_in_batches_goes_on_in_real_time_in_a_new_folder(lab: Lab) -> None:
    """Spark refuses such a checkpoint; positions are all that a job without state needs of it."""
    soon = ONE.replace("to: out", "to: out, mode: real-time")
    lab.apply(ONE)
    lab.ran("one", raw=7)
    assert lab.apply(soon, stateful=True, mode=Mode.REAL_TIME) == {"one": 1}
    assert lab.apply(ONE) == {"one": 1}
    assert lab.apply(soon, mode=Mode.REAL_TIME) == {"one": 2}
    assert lab.begins("one") == {"raw": {0: 7}}
    lab.ran("one", raw=9)
    again = soon.replace("SELECT n", "SELECT n + 1 AS n")
    assert lab.apply(again, mode=Mode.REAL_TIME) == {"one": 2}
    assert lab.apply(ONE) == {"one": 2}, "batches go on in either kind of folder"


def test_a_mode_may_change_though_the_file_does_not(resting: Lab) -> None:
    """Another Spark, or other code of the user's: engines are asked at each start of a run."""
    resting.apply(ONE)
    resting.ran("one", raw=7)
    assert resting.apply(ONE, mode=Mode.REAL_TIME) == {"one": 2}
    assert resting.begins("one") == {"raw": {0: 7}}


def test_a_job_that_comes_back_begins_in_an_empty_folder(lab: Lab) -> None:
    lab.apply(ONE)
    lab.ran("one", raw=7)
    assert lab.apply(ONE.replace("one:", "two:")) == {"two": 1}
    lab.ends["raw"] = {0: 12}
    assert lab.apply(ONE) == {"one": 2}
    assert lab.begins("one") == {"raw": {0: 12}}, "where the stream ended, not where it had been"


def test_another_source_begins_anew(lab: Lab) -> None:
    text = "streams: {raw: {schema: {n: int, at: timestamp}}}\njobs:\n  source: {read: %s, to: raw}"
    lab.apply(text % "{replay: one.jsonl, by: at}")
    assert lab.apply(text % "{replay: one.jsonl, by: at, speed: 9}") == {"source": 1}
    assert lab.apply(text % "{replay: two.jsonl, by: at}") == {"source": 2}
    assert lab.apply(text % "two.jsonl") == {"source": 3}


def test_apart_fused_and_apart_again_each_goes_on(lab: Lab) -> None:
    """The stream between them is still there: nothing of it is read twice."""
    assert lab.apply(CHAIN) == {"a": 1, "b": 1}
    lab.ran("a", raw=9)
    lab.ran("b", mid=5)
    assert lab.apply(FUSED) == {"a": 1}
    assert lab.apply(CHAIN) == {"a": 1, "b": 1}


def test_a_stream_that_was_dropped_meanwhile_is_read_from_its_beginning() -> None:
    lab = Lab(rests=False, keeps=False)
    lab.apply(CHAIN)
    lab.ran("a", raw=9)
    lab.ran("b", mid=5)
    assert lab.apply(FUSED) == {"a": 1}
    assert lab.apply(CHAIN) == {"a": 1, "b": 2}
    assert lab.begins("b") == {}


def test_a_job_that_left_the_file_while_inside_is_forgotten(resting: Lab) -> None:
    resting.apply(CHAIN)
    resting.ran("a", raw=9)
    resting.ran("b", mid=5)
    resting.apply(FUSED)
    resting.apply(FUSED.replace("b: {", "c: {"))
    resting.apply(FUSED)
    assert resting.apply(CHAIN) == {"a": 1, "b": 2}
    assert resting.begins("b") == {}


def test_what_is_inside_is_known_to_the_next_coordinator(resting: Lab) -> None:
    resting.apply(CHAIN)
    resting.ran("b", mid=5)
    resting.apply(FUSED)
    known = resting.board.deployment
    assert known.inside["b"].reached == {"mid": {0: 5}}
    kept = json.loads(json.dumps(deployment_document(known)))
    assert deployment_of(kept) == known


def test_positions_go_into_a_query_and_out_of_it(resting: Lab) -> None:
    """b also reads a stored stream: the query reads on there, and b goes on where it was."""
    more = CHAIN.replace("from: mid", "from: [mid, more]")
    fused = more.replace("mid: {}", "mid: {transient: true}")
    resting.apply(more)
    resting.ran("a", raw=9)
    resting.ran("b", mid=5, more=2)
    assert resting.apply(fused) == {"a": 2}
    assert resting.begins("a") == {"raw": {0: 9}, "more": {0: 2}}
    resting.ran("a", raw=20, more=8)
    assert resting.apply(more) == {"a": 3, "b": 2}
    assert resting.begins("a") == {"raw": {0: 20}}
    assert resting.begins("b") == {"mid": {0: 5}, "more": {0: 8}}


def test_a_job_that_was_never_apart_begins_where_its_query_was(resting: Lab) -> None:
    fused = FUSED.replace("from: mid", "from: [mid, more]")
    resting.apply(fused)
    resting.ran("a", raw=9, more=4)
    assert resting.apply(fused.replace("transient: true", "transient: false")) == {"a": 2, "b": 1}
    assert resting.begins("b") == {"more": {0: 4}}


def test_who_comes_with_state_begins_with_none_where_the_query_was(lab: Lab) -> None:
    windowed = FUSED.replace("{n: int}", "{n: int, at: timestamp}")
    windowed = windowed.replace("b: {", "b: {window: {of: 1 s, by: at}, ")
    apart = windowed.replace("transient: true", "transient: false")
    lab.apply(apart)
    lab.ran("a", raw=9)
    lab.ran("b", mid=9)
    assert lab.apply(windowed)["a"] == 2
    assert lab.begins("a") == {"raw": {0: 9}}


def test_a_job_at_another_site_takes_along_its_positions_or_what_it_keeps(lab: Lab) -> None:
    away = ONE.replace("one: {", "one: {site: there, ")
    lab.apply(ONE)
    lab.ran("one", raw=7)
    assert lab.apply(away) == {"one": 2}
    assert lab.begins("one") == {"raw": {0: 7}}
    assert lab.goal("one").brought is None
    lab.ran("one", raw=9)
    assert lab.apply(ONE, stateful=True) == {"one": 3}
    assert lab.begins("one") == {}
    assert lab.goal("one").brought == ("there", 2)
