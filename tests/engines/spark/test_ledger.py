"""What became of every record that a job read, over batches and restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millrace.engines.spark.checkpoint import Committed
from millrace.engines.spark.ledger import Ledger, added, progress_of
from millrace.engines.spark.member import Alone, Member
from millrace.ports import Fates
from tests.engines.spark.lab import balanced


def ledger(place: Path, *, carries: bool = True) -> Ledger:
    return Ledger(place / "ledger.json", Alone("job", ["raw"], carries), {"topic.raw": "raw"})


def event(
    batch: int,
    read: int,
    *,
    end: int,
    used: int = 0,
    malformed: int = 0,
    dropped: int = 0,
    written: int = 0,
) -> dict[str, Any]:
    """A batch as Spark reports it, of a query that carries origins."""
    return {
        "batchId": batch,
        "batchDuration": 1500,
        "processedRowsPerSecond": 2.5,
        "sources": [{"numInputRows": read, "endOffset": {"topic.raw": {"0": end}}}],
        "observedMetrics": {
            "out": {
                "used": used,
                "malformed": malformed,
                "dropped": dropped,
                "written:out": written,
            }
        },
    }


def test_a_batch_is_added_once(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    one = event(0, 10, end=10, used=5, malformed=2, dropped=1, written=6)
    first = book.add(one, 100.0)
    assert first.fates == Fates(10, 5, 2, 2, 0, 1, 0, {"out": 6})
    assert (first.batch, first.at, first.positions) == (0, 100.0, {"raw": {0: 10}})
    assert (first.rows_per_second, first.batch_seconds) == (2.5, 1.5)
    again = book.add(one, 101.0)
    assert (again.fates, again.batch, again.at) == (first.fates, 0, 101.0)
    assert book.add(event(1, 4, end=14, used=4, written=4), 102.0).fates.read == 14


def test_it_survives_a_restart(tmp_path: Path) -> None:
    before = ledger(tmp_path).add(event(3, 7, end=7, used=7, written=7), 5.0)
    after = ledger(tmp_path)
    assert after.progress == before
    after.begin(Committed(3, 0, {"topic.raw": {0: 7}}, {"topic.raw": {0: 0}}))
    assert after.progress == before
    assert after.add(event(3, 7, end=7, used=7), 6.0).fates == before.fates


def test_what_nobody_counted_is_lost_sight(tmp_path: Path) -> None:
    """A batch was committed and the driver was killed before its report."""
    ledger(tmp_path).add(event(0, 7, end=7, used=7, written=7), 5.0)
    book = ledger(tmp_path)
    book.begin(Committed(1, 0, {"topic.raw": {0: 12}}, {"topic.raw": {0: 0}}))
    fates = book.progress.fates
    assert (fates.read, fates.used, fates.lost_sight) == (12, 7, 5)
    assert balanced(fates)
    assert ledger(tmp_path).progress == book.progress
    assert book.add(event(1, 5, end=12, used=5), 6.0).fates == fates


def test_what_nobody_counted_from_the_very_first(tmp_path: Path) -> None:
    """The query began in the middle of its stream; what was before is none of its business."""
    book = ledger(tmp_path)
    book.begin(Committed(0, 0, {"topic.raw": {0: 112}}, {"topic.raw": {0: 100}}))
    assert (book.progress.fates.read, book.progress.fates.lost_sight) == (12, 12)


def test_a_fresh_query_has_lost_nothing(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    book.begin(Committed())
    first = {"topic.raw": {0: 100}}
    book.begin(Committed(-1, 5, first, first))
    assert book.progress.fates == Fates()


def test_a_broken_file_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text('{"batch": 3,')
    assert ledger(tmp_path).progress.batch == -1


def test_a_query_that_loses_origins_counts_at_its_inputs(tmp_path: Path) -> None:
    book = ledger(tmp_path, carries=False)
    report = event(0, 20, end=10)  # the source is read twice: once for dead letters
    report["observedMetrics"] = {
        "in:raw": {"read": 10, "malformed": 3},
        "in:more": {"read": 4, "malformed": 0},
        "out": {"rows": 5, "written:out": 2},
    }
    report["stateOperators"] = [{"numRowsDroppedByWatermark": 2}]
    fates = book.add(report, 1.0).fates
    assert (fates.read, fates.used, fates.malformed, fates.late) == (14, 11, 3, 2)
    assert fates.filtered is None
    assert fates.written == {"out": 2}
    assert balanced(fates)


def test_an_empty_batch_changes_no_count(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    before = book.add(event(0, 7, end=7, used=7), 1.0).fates
    empty = {"batchId": 1, "sources": [{"numInputRows": 0, "endOffset": None}]}
    after = book.add(empty, 2.0)
    assert (after.fates.read, after.fates.used) == (before.read, before.used)
    assert (after.batch, after.positions) == (1, {"raw": {0: 7}})


def test_a_look_that_found_nothing_is_no_batch(tmp_path: Path) -> None:
    """Spark reports it under the number of the next batch, which is counted when it comes."""
    book = ledger(tmp_path)
    before = book.add(event(0, 7, end=7, used=7), 1.0)
    look = {**event(1, 0, end=7), "durationMs": {"latestOffset": 1, "triggerExecution": 1}}
    assert book.add(look, 2.0) == before
    ran = {**event(1, 4, end=11, used=4), "durationMs": {"addBatch": 9, "triggerExecution": 10}}
    assert book.add(ran, 3.0).fates.read == 11


def test_offsets_may_be_a_text(tmp_path: Path) -> None:
    report = event(0, 3, end=3, used=3)
    report["sources"][0]["endOffset"] = json.dumps({"topic.raw": {"0": 3}})
    assert ledger(tmp_path).add(report, 1.0).positions == {"raw": {0: 3}}


def test_news_that_come_late_do_not_turn_back(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    last = book.add(event(3, 7, end=7, used=7), 1.0)
    assert book.add(event(2, 3, end=3, used=3), 2.0) == last
    assert book.progress == last


def test_a_stream_that_is_read_twice_is_counted_once_for_each_time() -> None:
    member = Member("job", ["raw", "raw"], [], ["out"], frozenset(), carries=False)
    seen = {"in:raw#a": {"read": 5, "malformed": 1}, "in:raw#b": {"read": 5, "malformed": 1}}
    fates = member.fates({"observedMetrics": seen})
    assert (fates.read, fates.malformed, fates.used) == (10, 2, 8)


def test_what_was_filtered_is_used_where_it_is_no_longer_known() -> None:
    """A job's new code does not tell the two apart; what the old one had counted is not lost."""
    known, unknown = Fates(10, 6, 4), Fates(5, 5, None)
    for whole in (added(known, unknown), added(unknown, known)):
        assert (whole.read, whole.used, whole.filtered) == (15, 15, None)
        assert balanced(whole)


counts = st.integers(0, 50)
batches = st.lists(
    st.tuples(counts, counts, counts, counts, st.integers(1, 3), st.booleans()), max_size=8
)


@given(batches, st.data())
def test_read_is_the_sum_of_the_fates(
    tmp_path_factory: Any, made: list[tuple[int, int, int, int, int, bool]], data: st.DataObject
) -> None:
    """However often a batch is reported, and wherever the driver is started again."""
    place = tmp_path_factory.mktemp("ledger")
    book, position = ledger(place), 0
    read = used = 0
    for number, (use, bad, drop, filtered, times, restart) in enumerate(made):
        size = use + bad + drop + filtered
        position += size
        seen = data.draw(st.booleans()) or number == 0
        report = event(number, size, end=position, used=use, malformed=bad, dropped=drop)
        if seen:
            for _ in range(times):
                book.add(report, float(number))
            used += use
        read += size
        if restart or not seen:
            book = ledger(place)
            positions = {"topic.raw": {0: position}}
            book.begin(Committed(number, 0, positions, {"topic.raw": {0: 0}}))
    fates = book.progress.fates
    assert balanced(fates)
    assert (fates.read, fates.used) == (read, used)


fates = st.builds(
    Fates,
    *[counts] * 2,
    st.none() | counts,
    *[counts] * 4,
    st.dictionaries(st.sampled_from("ab"), counts),
)


@given(fates, fates)
def test_sums_do_not_depend_on_the_order(one: Fates, other: Fates) -> None:
    whole = added(one, other)
    if one.read and other.read:
        assert whole == added(other, one)
    assert whole.read == one.read + other.read
    if one.read and None in (one.filtered, other.filtered):
        assert whole.filtered is None


@given(counts, st.dictionaries(st.text(), st.dictionaries(counts, counts)))
def test_progress_is_read_again_as_it_was(batch: int, positions: dict[str, dict[int, int]]) -> None:
    document = {
        "batch": batch,
        "at": 1.5,
        "positions": positions,
        "rows_per_second": 2.0,
        "batch_seconds": 3.0,
        "fates": {"read": 1, "used": 1, "written": {"a": 1}},
    }
    found = progress_of(json.loads(json.dumps(document)))
    assert (found.batch, found.positions) == (batch, positions)
    assert found.fates == Fates(1, 1, written={"a": 1})
