"""The fakes keep the port's promises, and the checker finds every lie of the faulty one."""

from __future__ import annotations

import threading
import zlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.errors import OperationFailed
from millrace.measure.checker import Checker
from millrace.measure.report import Report
from millrace.measure.stamp import Stamp, read_stamp, stamped
from millrace.ports import Log, Record, Span
from millrace.testing.faulty_log import FaultyLog, MemoryLog

SEEDS = st.integers(0, 2**32)
COUNT = 60


def filled(partitions: int = 2) -> MemoryLog:
    log = MemoryLog({"s": partitions})
    log.write("s", [stamped("run", 0, seq, f"k{seq % 4}", 0, 0) for seq in range(COUNT)])
    return log


def all_of(log: Log, wait: float = 0.0) -> list[Record]:
    spans = log.ends("s")
    start = {part: span.first for part, span in spans.items()}
    return list(log.read("s", start, {part: span.end for part, span in spans.items()}, wait))


def checked(records: list[Record]) -> Report:
    checker = Checker("run")
    checker.expect(0, COUNT)
    for record in records:
        checker.seen(record)
    return checker.report()


def stamps(records: list[Record]) -> list[Stamp]:
    read = [read_stamp(record.value) for record in records]
    assert None not in read
    return [stamp for stamp in read if stamp is not None]


def reordered(records: list[Record]) -> int:
    """First arrivals behind a later one of their key, counted by comparing all with all."""
    first = list({stamp.seq: stamp for stamp in stamps(records)}.values())
    return sum(
        any(b.key == stamp.key and b.seq > stamp.seq for b in first[:at])
        for at, stamp in enumerate(first)
    )


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_a_clean_log_passes(partitions: int) -> None:
    assert checked(all_of(filled(partitions))).problems() == []
    assert checked(all_of(FaultyLog(filled(partitions), seed=1))).problems() == []


@given(SEEDS, st.floats(0.01, 0.5))
@settings(max_examples=60)
def test_a_loss_is_found(seed: int, share: float) -> None:
    faulty = FaultyLog(filled(), seed, lose=share)
    records = all_of(faulty)
    report = checked(records)
    lacking = set(range(COUNT)) - {stamp.seq for stamp in stamps(records)}
    assert report.missing.count == len(lacking) == faulty.lost
    assert {seq for _, seq in report.missing.examples} <= lacking
    assert report.ok == (not lacking)
    assert (report.duplicate.count, report.reordered.count) == (0, 0)


@given(SEEDS, st.floats(0.01, 0.5))
@settings(max_examples=60)
def test_a_repetition_is_found(seed: int, share: float) -> None:
    faulty = FaultyLog(filled(), seed, repeat=share)
    records = all_of(faulty)
    report = checked(records)
    more = sum(count - 1 for count in Counter(s.seq for s in stamps(records)).values())
    assert report.duplicate.count == more == faulty.repeated
    assert report.ok == (not more)
    assert (report.missing.count, report.reordered.count) == (0, 0)


@given(SEEDS, st.floats(0.01, 0.5))
@settings(max_examples=60)
def test_a_swap_within_a_key_is_found(seed: int, share: float) -> None:
    log = MemoryLog({"s": 1})
    log.write("s", [stamped("run", 0, seq, "k", 0, 0) for seq in range(COUNT)])
    faulty = FaultyLog(log, seed, swap=share)
    records = all_of(faulty)
    report = checked(records)
    assert report.reordered.count == reordered(records) == faulty.swapped
    assert report.ok == (not faulty.swapped)
    assert (report.missing.count, report.duplicate.count) == (0, 0)


@given(SEEDS, *[st.floats(0, 0.4)] * 3)
@settings(max_examples=40)
def test_all_faults_together_are_told_apart(
    seed: int, lose: float, repeat: float, swap: float
) -> None:
    faulty = FaultyLog(filled(), seed, lose, repeat, swap)
    records = all_of(faulty)
    report = checked(records)
    assert report.missing.count == faulty.lost
    assert report.duplicate.count == faulty.repeated
    assert report.reordered.count == reordered(records)


@pytest.mark.parametrize("fault", ["lose", "repeat", "swap"])
def test_faults_do_happen(fault: str) -> None:
    faulty = FaultyLog(filled(), 1, **{fault: 0.2})
    report = checked(all_of(faulty))
    done = faulty.lost + faulty.repeated + faulty.swapped
    assert 0 < done < COUNT
    assert fault == "swap" or not report.ok  # a swap of two keys breaks no order


@given(SEEDS, st.integers(0, COUNT))
@settings(max_examples=30)
def test_a_second_read_tells_the_same(seed: int, cut: int) -> None:
    faulty = FaultyLog(filled(1), seed, lose=0.2, repeat=0.2)
    whole = all_of(faulty)
    parts = [*faulty.read("s", {0: 0}, {0: cut}), *faulty.read("s", {0: cut}, {0: COUNT})]
    assert parts == whole


@given(st.lists(st.binary(max_size=8) | st.none(), max_size=30), st.integers(1, 5))
def test_a_key_has_the_partition_that_librdkafka_gives_it(
    keys: list[bytes | None], count: int
) -> None:
    log = MemoryLog({"s": count})
    assert log.write("s", [Record(str(at).encode(), key) for at, key in enumerate(keys)]) == len(
        keys
    )
    records = all_of(log)
    assert sorted(int(record.value or b"") for record in records) == list(range(len(keys)))
    for record in records:
        if record.key:
            assert record.partition == zlib.crc32(record.key) % count
    without = sorted((int(r.value or b""), r.partition) for r in records if not r.key)
    assert [part for _, part in without] == [at % count for at in range(len(without))]


def test_positions_count_by_partition_and_are_where_reading_begins() -> None:
    log = filled(2)
    ends = log.ends("s")
    assert sum(span.end for span in ends.values()) == COUNT
    (part, span) = max(ends.items(), key=lambda item: item[1].end)
    found = list(log.read("s", {part: span.end - 3}, {part: span.end}))
    assert [(r.partition, r.position) for r in found] == [
        (part, span.end - back) for back in (3, 2, 1)
    ]


def test_a_time_has_its_position() -> None:
    log = MemoryLog({"s": 2})
    log.write("s", [Record(b"", time=time, partition=0) for time in (10, 20, 20, 30)])
    assert log.since("s", 20) == {0: 1, 1: 0}
    assert log.since("s", 31) == {0: 4, 1: 0}
    assert FaultyLog(log, 1).since("s", 0) == {0: 0, 1: 0}


def test_a_reader_gets_what_is_written_while_it_waits() -> None:
    log = MemoryLog({"s": 1})
    reader = log.read("s", {0: 0}, wait=30.0)
    writer = threading.Timer(0.02, log.write, ("s", [Record(b"late")]))
    writer.start()
    assert next(reader).value == b"late"
    writer.join()


def test_reading_ends_when_nothing_comes() -> None:
    assert [r.value for r in filled(1).read("s", {0: COUNT}, wait=0.01)] == []


def test_an_end_that_does_not_come_is_an_error_that_may_pass() -> None:
    with pytest.raises(OperationFailed, match="not read to its end") as raised:
        list(filled(1).read("s", {0: 0}, {0: COUNT + 1}, wait=0.01))
    assert raised.value.transient


def test_what_is_not_there_is_said() -> None:
    log = MemoryLog({"s": 1})
    with pytest.raises(OperationFailed, match="no stream x"):
        log.ends("x")
    with pytest.raises(OperationFailed, match="no partition 1"):
        log.write("s", [Record(b"", partition=1)])
    assert log.ends("s") == {0: Span(0, 0)}
