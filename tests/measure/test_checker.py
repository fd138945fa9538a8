"""The checker's books, against books kept the slow way."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.measure.checker import EXAMPLES, Checker
from millrace.measure.report import Found, Report
from millrace.measure.stamp import stamped
from millrace.ports import Record

SENT = 1_700_000_000


def record(seq: int, writer: int = 0, key: str = "k", run: str = "run") -> Record:
    return stamped(run, writer, seq, key, SENT * 1_000_000, 100)


def key_of(name: tuple[int, int]) -> str:
    return f"k{name[1] % 3}"


def checked(arrivals: list[tuple[int, int]], counts: dict[int, int], *, late: bool) -> Report:
    """Return the report over arrivals by writer and seq; `late`: what to expect is said last."""
    checker = Checker("run")
    if not late:
        for writer, count in counts.items():
            checker.expect(writer, count)
    for name in arrivals:
        checker.seen(record(name[1], name[0], key_of(name)))
    if late:
        for writer, count in counts.items():
            checker.expect(writer, count)
    everything = {(writer, seq) for writer, count in counts.items() for seq in range(count)}
    assert checker.complete == (everything <= set(arrivals))
    return checker.report()


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=120),
    st.dictionaries(st.integers(0, 2), st.integers(0, 40), max_size=3),
    st.booleans(),
)
def test_the_books_are_those_kept_the_slow_way(
    arrivals: list[tuple[int, int]], counts: dict[int, int], late: bool
) -> None:
    report = checked(arrivals, counts, late=late)
    expected = {(writer, seq) for writer, count in counts.items() for seq in range(count)}
    missing = sorted(expected - set(arrivals))
    beyond = sorted(set(arrivals) - expected)
    again = [name for at, name in enumerate(arrivals) if name in arrivals[:at]]
    first = list(dict.fromkeys(arrivals))
    behind = [
        name
        for at, name in enumerate(first)
        if any(
            (before[0], key_of(before)) == (name[0], key_of(name)) and before[1] > name[1]
            for before in first[:at]
        )
    ]
    for found, truth in (
        (report.missing, missing),
        (report.unexpected, beyond),
        (report.duplicate, again),
        (report.reordered, behind),
    ):
        assert found == Found(len(truth), tuple(truth[:EXAMPLES]))
    assert report.sent == len(expected)
    assert report.read == len(arrivals)
    balance = report.sent - report.missing.count + report.unexpected.count
    assert report.read == balance + report.duplicate.count
    assert report.ok == (not (missing or beyond or again or behind))


@given(st.permutations(range(8)), st.lists(st.integers(0, 7), max_size=20))
def test_duplicates_are_never_reordered(order: list[int], again: list[int]) -> None:
    once = checked([(0, seq) for seq in order], {0: 8}, late=False)
    more = checked([(0, seq) for seq in order + again], {0: 8}, late=False)
    assert more.reordered == once.reordered
    assert more.duplicate.count == len(again)
    counted = Counter(again)
    assert not more.problems() or counted or once.reordered.count


def test_corrupt_and_foreign_records_are_told_apart() -> None:
    checker = Checker("run")
    checker.expect(0, 1)
    checker.seen(record(0))
    checker.seen(record(0, run="another"))
    broken = record(0)
    checker.seen(replace(broken, value=(broken.value or b"").replace(b'"seq":0', b'"seq":1')))
    checker.seen(Record(None))
    report = checker.report()
    assert (report.read, report.foreign, report.corrupt) == (1, 1, 2)
    assert report.problems() == ["corrupt: 2 are not as they were sent"]


def test_foreign_records_alone_are_no_problem() -> None:
    checker = Checker("run")
    checker.expect(0, 0)
    checker.seen(record(0, run="another"))
    assert checker.report().ok


def test_latency_is_from_the_time_a_record_was_due() -> None:
    checker = Checker("run")
    checker.expect(0, 3)
    for seq, took in enumerate([0.5, 1.0, 9.0]):
        checker.seen(record(seq), SENT + took, late_after=1.0)
    checker.seen(record(0), SENT + 100, late_after=1.0)  # again: not its first arrival
    report = checker.report()
    assert report.latency.count == 3
    assert report.latency.p50 == pytest.approx(1.0, rel=2e-3)
    assert report.latency.max == pytest.approx(9.0, rel=2e-3)
    assert report.late == 1
    assert "late: 1 took longer than allowed" in report.problems()


def test_some_duplicates_can_be_allowed() -> None:
    report = checked([(0, 0), (0, 0), (0, 0)], {0: 1}, late=False)
    assert report.problems(most_duplicates=2) == []
    assert report.problems(most_duplicates=1) == [
        "duplicate: 2 (writer/seq 0/0, 0/0) came again; allowed are 1"
    ]
    assert not report.ok


def test_examples_are_few() -> None:
    report = checked([], {0: 100}, late=False)
    assert report.problems() == [
        "missing: 100 (writer/seq 0/0, 0/1, 0/2, 0/3, 0/4, ...) of 100 never arrived"
    ]


def test_a_number_far_out_costs_a_bit_for_each_before_it_and_no_more() -> None:
    checker = Checker("run")
    checker.expect(0, 10_000_000)
    checker.seen(record(9_999_999))
    report = checker.report()
    assert report.missing.count == 9_999_999
    assert len(checker._writers[0]._bits) == 1_250_000


def test_the_document_is_plain_data() -> None:
    document = checked([(0, 1), (0, 1)], {0: 2}, late=False).document()
    assert document["missing"] == {"count": 1, "examples": [[0, 0]]}
    assert document["duplicate"] == {"count": 1, "examples": [[0, 1]]}
    assert document["latency_seconds"]["count"] == 0
