"""The probe over logs in memory, with a thread that copies as a pipeline does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest

from millrace.errors import OperationFailed
from millrace.measure.load import Load
from millrace.measure.run import run_check
from millrace.measure.stamp import stamped
from millrace.ports import Log, Record, Span
from millrace.testing.faulty_log import FaultyLog, MemoryLog

LOAD = Load(rate=2000, seconds=0.1, keys=10, size=120)


def same(record: Record) -> list[Record]:
    return [record]


@contextmanager
def pipeline(log: Log, change: Callable[[Record], Iterable[Record]] = same) -> Iterator[None]:
    """Copy stream `in` to stream `out` while it lasts."""
    ended = threading.Event()
    at = {part: span.end for part, span in log.ends("in").items()}

    def copy() -> None:
        while not ended.is_set():
            for record in log.read("in", dict(at), wait=0.05):
                at[record.partition or 0] = record.position + 1
                fresh = replace(record, partition=None, time=None)
                log.write("out", change(fresh))

    thread = threading.Thread(target=copy)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def memory() -> MemoryLog:
    return MemoryLog({"in": 3, "out": 2})


def test_a_sound_pipeline_is_found_sound() -> None:
    log = memory()
    log.write("out", [stamped("run", 0, 0, "k1", 0, 100)])  # before the start: not ours to see
    with pipeline(log):
        found = run_check(log, "in", log, "out", LOAD, run="run", wait=20, settle=0.1)
    assert found.problems() == []
    assert found.report.sent == found.report.read == LOAD.count == 200
    assert found.report.latency.count == 200
    assert (found.report.latency.max or 99) < 10
    assert found.load_ended - found.load_started >= 0.09


def test_a_load_ends_when_there_is_enough() -> None:
    log, asked = memory(), iter(range(1000))
    with pipeline(log):
        found = run_check(
            log, "in", log, "out", LOAD, run="run", wait=20, settle=0.1,
            enough=lambda: next(asked) >= 50,
        )  # fmt: skip
    assert found.problems() == []
    assert found.report.sent == found.report.read == 50


def test_lost_records_are_missed_once_the_wait_is_over() -> None:
    log = memory()
    with pipeline(log, lambda record: [] if record.position % 7 == 3 else [record]):
        found = run_check(log, "in", log, "out", LOAD, run="run", wait=0.3, settle=0.0)
    spans = log.ends("in").values()
    lost = sum(position % 7 == 3 for span in spans for position in range(span.end))
    assert found.report.missing.count == lost > 0
    assert found.report.duplicate.count == 0
    assert not found.ok


def test_repeated_records_are_found() -> None:
    log = memory()
    with pipeline(log, lambda record: [record] * (2 if record.position == 5 else 1)):
        found = run_check(log, "in", log, "out", LOAD, run="run", wait=20, settle=0.1)
    assert found.report.duplicate.count == 3  # one for each partition
    assert found.report.missing.count == 0


def test_a_log_that_lies_to_the_probe_is_found_out() -> None:
    log = memory()
    lying = FaultyLog(log, seed=3, lose=0.02)
    with pipeline(log):
        found = run_check(log, "in", lying, "out", LOAD, run="run", wait=0.3, settle=0.0)
    assert found.report.missing.count > 0
    assert found.report.read == 200 - found.report.missing.count


def test_a_stream_that_is_not_there_is_said_before_anything_is_sent() -> None:
    log = memory()
    with pytest.raises(OperationFailed, match="there is no stream nowhere"):
        run_check(log, "in", log, "nowhere", LOAD, run="run")
    assert all(span.end == 0 for span in log.ends("in").values())


class Failing(FaultyLog):
    """Raises on its first reads, `times` of them."""

    def __init__(self, inner: Log, times: int, *, transient: bool) -> None:
        super().__init__(inner, seed=0)
        self.times = times
        self.transient = transient

    def read(self, *arguments: object, **named: object) -> Iterator[Record]:
        if self.times:
            self.times -= 1
            raise OperationFailed("away", "the broker is away", transient=self.transient)
        return super().read(*arguments, **named)  # type: ignore[arg-type]


def test_a_failure_that_passes_is_outlived() -> None:
    log = memory()
    with pipeline(log):
        failing = Failing(log, 1, transient=True)
        found = run_check(log, "in", failing, "out", LOAD, run="run", wait=20, settle=0.1)
    assert failing.times == 0
    assert found.problems() == []


@pytest.mark.parametrize(("times", "transient"), [(1, False), (1000, True)])
def test_a_failure_that_stays_is_raised(times: int, transient: bool) -> None:
    log = memory()
    failing = Failing(log, times, transient=transient)
    with pytest.raises(OperationFailed, match="away"):
        run_check(log, "in", failing, "out", LOAD, run="run", wait=0.1, settle=0.0)


def test_a_failure_that_stays_ends_the_load_early() -> None:
    log = memory()
    hour = Load(rate=1000, seconds=3600)
    with pytest.raises(OperationFailed, match="away"):
        run_check(log, "in", Failing(log, 1, transient=False), "out", hour, run="run")


def test_a_failure_to_write_ends_the_reader_too() -> None:
    log = memory()
    before = threading.active_count()
    with pytest.raises(OperationFailed, match="there is no stream nowhere"):
        run_check(log, "nowhere", log, "out", LOAD, run="run")
    assert threading.active_count() == before


class Behind(FaultyLog):
    """Gives nothing to who follows it, all to who reads up to an end."""

    def read(
        self,
        stream: str,
        start: Mapping[int, int],
        until: Mapping[int, int] | None = None,
        wait: float = 1.0,
    ) -> Iterator[Record]:
        if until is None:
            start = {part: span.end + 10**9 for part, span in self.ends(stream).items()}
            wait = 0.01
        return super().read(stream, start, until, wait)


def test_what_stands_in_the_stream_at_the_end_is_counted_however_slow_the_reader_was() -> None:
    log = memory()
    with pipeline(log):
        found = run_check(log, "in", Behind(log, 0), "out", LOAD, run="run", wait=0.5, settle=0.0)
    assert found.problems() == []


class Growing(FaultyLog):
    """Has one partition when it is first looked at, and all of them later."""

    looks = 0

    def ends(self, stream: str) -> Mapping[int, Span]:
        self.looks += 1
        spans = super().ends(stream)
        return {0: spans[0]} if self.looks == 1 else spans


def test_a_partition_that_is_added_meanwhile_is_read() -> None:
    log = memory()
    with pipeline(log):
        found = run_check(log, "in", Growing(log, 0), "out", LOAD, run="run", wait=20, settle=0.0)
    assert all(span.end for span in log.ends("out").values())
    assert found.problems() == []
