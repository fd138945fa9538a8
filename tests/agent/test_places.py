"""Where jobs go on when their file was changed, by folders made by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from millrace.agent.places import Places
from millrace.agent.state import Applied
from millrace.engines.spark.checkpoint import committed, read_start
from millrace.errors import OperationFailed
from millrace.machine import Folders
from millrace.model.job import Mode
from millrace.model.pipeline import Pipeline
from millrace.model.status import JobFacts, Observed
from millrace.plan import plan
from millrace.ports import Log, Span
from millrace.spec import load_text
from tests.agent.checkpoints import write_checkpoint

HEAD = "pipeline: p\nsites: {here: {broker: kafka}}\n"
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


def of(text: str) -> Pipeline:
    if "more]" in text:
        text = text.replace("streams: {", "streams: {more: {schema: {n: int}}, ")
    return load_text(HEAD + text, "p").required()


@dataclass
class Lab:
    """A pipeline's folder, and what was applied to it last."""

    home: Path
    applied: Applied = field(default_factory=Applied)

    def places(self, text: str) -> Places:
        return Places(Folders(self.home, self.home / "cache"), self.applied, of(text))

    def apply(
        self, text: str, *, stateful: bool = False, mode: Mode = Mode.MICRO_BATCH
    ) -> dict[str, int]:
        """Settle the folders as a start of this file would."""
        places = self.places(text)
        facts = {name: JobFacts(mode, stateful=stateful) for name in places.wanted.jobs}
        found = plan(places.wanted, Observed(self.applied.pipeline), facts)
        numbers = places.settled(found, facts)
        self.applied = Applied(places.wanted, numbers)
        return numbers

    def place(self, job: str) -> Path:
        return self.places(ONE).old(job) or Path()

    def ran(self, job: str, **positions: int) -> None:
        """Let a job commit one partition of each topic up to a position."""
        write_checkpoint(self.place(job), {topic: {0: at} for topic, at in positions.items()})


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.mark.parametrize("stateful", [False, True])
def test_other_code_over_the_same_streams_goes_on_where_it_is(lab: Lab, stateful: bool) -> None:
    assert lab.apply(ONE) == {"one": 1}
    lab.ran("one", raw=7)
    assert lab.apply(ONE.replace("SELECT n", "SELECT n + 1 AS n"), stateful=stateful) == {"one": 1}


def test_a_stream_of_another_name_at_the_same_place_is_the_same(lab: Lab) -> None:
    lab.apply(ONE)
    lab.ran("one", raw=7)
    renamed = ONE.replace("raw: {", "cars: {topic: raw, ").replace("from: raw", "from: cars")
    assert lab.apply(renamed.replace("FROM raw", "FROM cars")) == {"one": 1}
    assert lab.apply(ONE.replace("raw: {", "raw: {topic: other, ")) == {"one": 2}
    assert read_start(lab.place("one")) == {}


def test_other_streams_are_a_new_folder_with_the_positions_that_stay(lab: Lab) -> None:
    lab.apply(ONE)
    lab.ran("one", raw=7)
    assert lab.apply(ONE.replace("from: raw", "from: [raw, more]")) == {"one": 2}
    assert read_start(lab.place("one")) == {"raw": {0: 7}}
    start = committed(lab.place("one") / "checkpoint")
    assert (start.batch, start.at, start.positions) == (-1, 1_000_000, {"raw": {0: 7}})


def test_several_inputs_may_change_their_places_in_new_code(lab: Lab) -> None:
    """Spark knows inputs by their places in the code; state can't go along, positions can."""
    two = ONE.replace("from: raw", "from: [raw, more]")
    lab.apply(two)
    lab.ran("one", raw=7, more=3)
    assert lab.apply(two) == {"one": 1}
    turned = two.replace("FROM raw", "FROM more UNION ALL SELECT n FROM raw")
    assert lab.apply(turned, stateful=True) == {"one": 1}
    lab.applied = Applied(of(two), {"one": 1})
    assert lab.apply(turned) == {"one": 2}
    assert read_start(lab.place("one")) == {"raw": {0: 7}, "more": {0: 3}}


def test_what_ran_in_batches_goes_on_in_real_time_in_a_new_folder(lab: Lab) -> None:
    """Spark refuses such a checkpoint; positions are all that a job without state needs of it."""
    lab.apply(ONE)
    lab.ran("one", raw=7)
    assert lab.apply(ONE, stateful=True, mode=Mode.REAL_TIME) == {"one": 1}
    assert lab.apply(ONE, mode=Mode.REAL_TIME) == {"one": 2}
    assert read_start(lab.place("one")) == {"raw": {0: 7}}
    write_checkpoint(lab.place("one"), {"raw": {0: 9}}, version=2)
    assert lab.apply(ONE, mode=Mode.REAL_TIME) == {"one": 2}


def test_a_new_job_begins_in_an_empty_folder(lab: Lab) -> None:
    lab.apply(ONE)
    lab.ran("one", raw=7)
    left = lab.place("one")
    assert lab.apply(ONE.replace("one:", "two:")) == {"two": 1}
    assert lab.apply(ONE) == {"one": 1}
    assert not left.exists()


def test_another_source_begins_anew(lab: Lab) -> None:
    text = "streams: {raw: {schema: {n: int, at: timestamp}}}\njobs:\n  source: {read: %s, to: raw}"
    lab.apply(text % "{replay: one.jsonl, by: at}")
    assert lab.apply(text % "{replay: one.jsonl, by: at, speed: 9}") == {"source": 1}
    assert lab.apply(text % "{replay: two.jsonl, by: at}") == {"source": 2}
    assert lab.apply(text % "two.jsonl") == {"source": 3}


def test_apart_fused_and_apart_again_each_goes_on(lab: Lab) -> None:
    assert lab.apply(CHAIN) == {"a": 1, "b": 1}
    lab.ran("a", raw=9)
    lab.ran("b", mid=5)
    assert lab.apply(FUSED) == {"a": 1, "b": 1}
    assert lab.apply(CHAIN) == {"a": 1, "b": 1}
    assert committed(lab.place("b") / "checkpoint").positions == {"mid": {0: 5}}


def test_positions_go_into_a_query_and_out_of_it(lab: Lab) -> None:
    """b also reads a stored stream: the query reads on there, and b goes on where it was."""
    more = CHAIN.replace("from: mid", "from: [mid, more]")
    fused = more.replace("mid: {}", "mid: {transient: true}")
    lab.apply(more)
    lab.ran("a", raw=9)
    lab.ran("b", mid=5, more=2)
    assert lab.apply(fused) == {"a": 2, "b": 1}
    assert read_start(lab.place("a")) == {"raw": {0: 9}, "more": {0: 2}}
    lab.ran("a", raw=20, more=8)
    assert lab.apply(more) == {"a": 3, "b": 2}
    assert read_start(lab.place("a")) == {"raw": {0: 20}}
    assert read_start(lab.place("b")) == {"mid": {0: 5}, "more": {0: 8}}


def test_a_job_that_was_never_apart_is_looked_at_where_it_will_not_run(lab: Lab) -> None:
    """What was compiled there does not know where to begin."""
    fused = FUSED.replace("from: mid", "from: [mid, more]")
    lab.apply(fused)
    lab.ran("a", raw=9, more=4)
    apart = fused.replace("transient: true", "transient: false")
    looked = lab.places(apart).examined()["b"]
    assert lab.apply(apart) == {"a": 2, "b": 1}
    assert read_start(lab.place("b")) == {"more": {0: 4}}
    assert looked != lab.place("b")


def test_who_comes_with_state_begins_with_none_where_the_query_was(lab: Lab) -> None:
    windowed = FUSED.replace("{n: int}", "{n: int, at: timestamp}")
    windowed = windowed.replace("b: {", "b: {window: {of: 1 s, by: at}, ")
    apart = windowed.replace("transient: true", "transient: false")
    lab.apply(apart)
    lab.ran("a", raw=9)
    lab.ran("b", mid=9)
    assert lab.apply(windowed)["a"] == 2
    assert read_start(lab.place("a")) == {"raw": {0: 9}}


def test_a_job_at_another_site_takes_its_positions_along(lab: Lab) -> None:
    lab.apply(ONE)
    lab.ran("one", raw=7)
    two = f"{HEAD.replace('}}', '}, there: {}}')}{ONE}".replace("one: {", "one: {site: there, ")
    two = two.replace("raw: {", "raw: {site: here, ").replace("out: {", "out: {site: here")
    wanted = load_text(two, "p").required()
    places = Places(Folders(lab.home, lab.home / "cache"), lab.applied, wanted)
    assert places.settled(plan(wanted, Observed(lab.applied.pipeline), {}), {}) == {"one": 2}
    assert read_start(places.new("one", 2)) == {"raw": {0: 7}}


class Topics:
    """A log of which only the ends are asked for."""

    def __init__(self, **ends: Span) -> None:
        self.spans = ends

    def ends(self, stream: str) -> dict[int, Span]:
        return {0: self.spans[stream]}


def unread(lab: Lab, text: str, **ends: Span) -> None:
    log = cast(Log, Topics(**ends))
    lab.places(text).refuse_unread({"here": log}, {"here": frozenset(ends)})


def test_a_stream_goes_inside_when_all_of_it_was_read(lab: Lab) -> None:
    lab.apply(CHAIN)
    lab.ran("a", raw=9)
    lab.ran("b", mid=5)
    with pytest.raises(OperationFailed) as caught:
        unread(lab, FUSED, mid=Span(0, 8))
    assert caught.value.code == "unread"
    assert "3 records of mid are not read yet by b" in caught.value.message
    assert "--until-drained" in caught.value.hint
    unread(lab, FUSED, mid=Span(0, 5))
    unread(lab, FUSED)  # its topic is gone
    unread(lab, CHAIN, mid=Span(0, 8))  # it stays where it is
    unread(lab, FUSED.replace("b: {", "c: {"), mid=Span(0, 8))  # who had not read it is gone


def test_what_expired_was_not_left_unread_by_anybody(lab: Lab) -> None:
    lab.apply(CHAIN)
    unread(lab, FUSED, mid=Span(8, 8))
    with pytest.raises(OperationFailed, match="2 records"):
        unread(lab, FUSED, mid=Span(6, 8))
