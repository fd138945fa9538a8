"""Which mode a job takes, and what stands against real-time mode."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.engines.spark.mode import QueryFacts, choose, obstacles
from millrace.errors import OperationFailed
from millrace.model.job import Emit, Job, Mode, Order
from millrace.model.policy import Checkpoint
from millrace.model.quantity import Duration
from millrace.model.stream import Promise
from millrace.model.work import KeyedState

EASY = QueryFacts(
    operators=("Project", "Filter", "SubqueryAlias"),
    python=False,
    stateful=False,
    carries=True,
    letters=True,
    brokers=1,
    slots=2,
    slots_there=512,
)
SQL = Job(name="j", sql="SELECT 1")
STATE = replace(EASY, operators=("Aggregate",), stateful=True, carries=False, letters=False)
SECOND = Duration.UNITS["s"]

CASES: list[tuple[Job, QueryFacts, str]] = [
    (Job(name="j", map="m:f"), replace(EASY, operators=("MapInArrow",), python=True), "map:"),
    (Job(name="j", state=KeyedState(code="m:f")), EASY, "state:"),
    (SQL, replace(EASY, python=True), "a Python function in the query"),
    (SQL, replace(EASY, operators=("Join",)), "a join"),
    (SQL, replace(EASY, operators=("GlobalLimit",)), "LIMIT"),
    (SQL, replace(EASY, operators=("Distinct",)), "DISTINCT"),
    (SQL, replace(EASY, operators=("Sort",)), "ORDER BY"),
    (SQL, replace(EASY, operators=("Window",)), "OVER"),
    (SQL, replace(EASY, operators=("Novel",)), "Novel is not on Spark's list"),
    (SQL, STATE, "emit: updates may"),
    (replace(SQL, emit=Emit.UPDATES), replace(STATE, letters=True), "a second read of its input"),
    (replace(SQL, order=Order.PRESERVE), EASY, "order: preserve"),
    (replace(SQL, promise=Promise.NO_DUPLICATES), EASY, "promise: no-duplicates"),
    (replace(SQL, interval=Duration(SECOND)), EASY, "interval: 1 s"),
    (replace(SQL, checkpoint=Checkpoint(every=Duration(4 * SECOND))), EASY, "below 5 s"),
    (SQL, replace(EASY, brokers=2), "several brokers"),
    (SQL, replace(EASY, slots=513), "513 task slots and the driver has 512"),
]


@pytest.mark.parametrize(("job", "facts", "reason"), CASES, ids=[case[2] for case in CASES])
def test_each_obstacle_is_named_alone(job: Job, facts: QueryFacts, reason: str) -> None:
    found = obstacles([job], facts)
    assert len(found) == 1, found
    assert reason in found[0]
    choice = choose([job], facts)
    assert (choice.mode, choice.reasons) == (Mode.MICRO_BATCH, tuple(found))


@pytest.mark.parametrize(("job", "facts", "reason"), CASES, ids=[case[2] for case in CASES])
def test_an_impossible_real_time_says_why_and_what_to_do(
    job: Job, facts: QueryFacts, reason: str
) -> None:
    with pytest.raises(OperationFailed) as caught:
        choose([replace(job, mode=Mode.REAL_TIME)], facts)
    assert (caught.value.code, caught.value.transient) == ("no-real-time", False)
    assert "job j" in caught.value.message
    assert reason in caught.value.message
    assert "mode: micro-batch" in caught.value.hint
    assert "mode: auto" in caught.value.hint


@pytest.mark.parametrize(
    ("job", "facts"),
    [
        (SQL, EASY),
        (replace(SQL, emit=Emit.UPDATES), STATE),
        (replace(SQL, checkpoint=Checkpoint(every=Duration(5 * SECOND))), EASY),
        (SQL, replace(EASY, slots=512)),
        (SQL, replace(EASY, operators=("Generate", "Union", "Expand", "View"))),
    ],
)
def test_nothing_stands_against_it(job: Job, facts: QueryFacts) -> None:
    assert obstacles([job], facts) == []
    assert choose([job], facts).mode is Mode.REAL_TIME
    assert choose([replace(job, mode=Mode.REAL_TIME)], facts).reasons == ("the file asks for it",)


@given(st.sampled_from(CASES), st.sampled_from([Mode.MICRO_BATCH, Mode.DRAIN]))
def test_what_the_file_asks_for_is_taken(case: tuple[Job, QueryFacts, str], mode: Mode) -> None:
    job, facts, _ = case
    assert choose([replace(job, mode=mode)], facts).mode is mode


@given(st.sets(st.sampled_from(range(9, len(CASES)))))
def test_all_obstacles_are_told_at_once(places: set[int]) -> None:
    """Those of the job's own settings and of the driver do not hide one another."""
    job, facts, reasons = SQL, EASY, set()
    for place in places - {9, 10}:
        other, seen, reason = CASES[place]
        reasons.add(reason)
        changes = {
            name: getattr(other, name)
            for name in ("order", "promise", "interval", "checkpoint")
            if getattr(other, name) != getattr(SQL, name)
        }
        job = replace(job, **changes)
        if seen.brokers > 1:
            facts = replace(facts, brokers=seen.brokers)
        if seen.slots != EASY.slots:
            facts = replace(facts, slots=seen.slots)
    found = obstacles([job], facts)
    assert len(found) == len(reasons)
    assert all(any(reason in item for item in found) for reason in reasons)
