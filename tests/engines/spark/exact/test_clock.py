"""Windows that close by the clock: those of append times, and those of silent partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from millrace.engines.spark.exact.aggregates import parsed
from millrace.engines.spark.exact.closing import Windows
from millrace.engines.spark.exact.marking import ABOUT, MARK, RESULT, Partition, Shape
from millrace.engines.spark.exact.partials import Layout

TEN = Shape(
    Layout(parsed("j", {"n": "count(*)"}), ()),
    10,
    10,
    None,
    0,
    keep=False,
    sources=(0, 1),
    buckets=1,
    wallclock=True,
)
IDLE = replace(TEN, wallclock=False, idle=100)


class Clock:
    """Both parts with one bucket; every batch has a time."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.opened: dict[int, bytes] = {}
        self.marks: dict[int, int] = {}
        self.seen: dict[int, int] = {}
        self.known: dict[int, int | None] = {0: None, 1: None}
        self.late = 0
        self.closed: set[int] = set()

    def batch(self, now: int, bad: Sequence[str] = (), **times: Sequence[int]) -> dict[int, int]:
        """Let a batch pass, of times by source (s0, s1); return closed windows."""
        windows = Windows(
            self.shape, self.opened, self.marks, updates=False, seen=self.seen, now=now
        )
        between: list[Any] = []
        for name, held in times.items():
            partition = Partition(self.shape, int(name[1:]), self.known[int(name[1:])])
            between += partition.rows(records(held, bad=name in bad))
            self.known[int(name[1:])] = partition.mark
        out = windows.rows(pd.concat(between, ignore_index=True)) if between else windows.tick()
        rows = [row for frame in list(out) for row in frame.to_dict("records")]
        self.late += sum(row["late"] for row in rows if row["kind"] == MARK)
        closed = [(row["begin"], row["r0"]) for row in rows if row["kind"] == RESULT]
        assert not {begin for begin, _ in closed} & self.closed, "a window closes once"
        self.closed |= {begin for begin, _ in closed}
        return dict(closed)


def records(times: Sequence[int], *, bad: bool = False) -> Any:
    about = {**dict.fromkeys(ABOUT), "position": range(len(times))}
    return pd.DataFrame({"bad": bad, "time": list(times), "key": "k", **about})


def test_a_source_with_news_is_as_far_as_they_are_and_others_as_far_as_the_clock_was() -> None:
    clock = Clock(TEN)
    assert clock.batch(9, s0=[1, 2]) == {}
    assert clock.batch(12) == {}, "what came between 9 and 12 may not be seen yet"
    assert clock.batch(13) == {0: 2}
    assert clock.batch(25, s0=[13], s1=[13, 14]) == {}, "more may follow in the next batch"
    assert clock.batch(26, s1=[21]) == {10: 3}
    assert clock.batch(31) == {}
    assert clock.batch(32) == {20: 1}
    assert clock.batch(99) == {}
    assert clock.late == 0


def test_what_was_there_when_the_last_batch_began_is_in_its_window() -> None:
    clock = Clock(TEN)
    assert clock.batch(9, s0=[1]) == {}
    assert clock.batch(12) == {}
    assert clock.batch(14, s1=[9]) == {}, "it was seen late, and its window is open"
    assert clock.batch(15) == {0: 2}


def test_a_record_that_is_seen_after_its_window_closed_is_late() -> None:
    clock = Clock(TEN)
    clock.batch(9, s0=[1])
    clock.batch(12)
    assert clock.batch(13) == {0: 1}
    assert clock.batch(14, s1=[5]) == {}, "it was in a transaction that had been open for long"
    assert (clock.batch(30), clock.late) == ({}, 1)


def test_malformed_records_are_news() -> None:
    clock = Clock(TEN)
    clock.batch(50, s0=[1])
    assert clock.batch(51, bad=["s0"], s0=[3]) == {}, "more of the backlog follows"
    assert clock.batch(52, s0=[4, 60]) == {0: 2}


def test_writers_clocks_that_go_back_make_nothing_late() -> None:
    clock = Clock(TEN)
    clock.batch(8, s0=[5, 4, 6, 5, 7])
    clock.batch(12)
    assert clock.batch(13) == {0: 5}
    assert clock.late == 0


def test_a_silent_partition_holds_windows_back_no_more() -> None:
    clock = Clock(IDLE)
    assert clock.batch(1000, s0=[1], s1=[2]) == {}
    assert clock.batch(1050, s0=[35]) == {}, "the other may still bring some"
    assert clock.batch(1101, s0=[36]) == {0: 2}
    assert clock.batch(1102, s1=[37]) == {}, "it is awaited again"
    assert clock.batch(1103, s0=[45]) == {}
    assert clock.batch(1150, s1=[46]) == {30: 3}
    assert clock.batch(1400) == {}, "where all are silent nothing is known of later windows"


def test_a_window_that_closed_without_a_silent_partition_stays_closed() -> None:
    clock = Clock(IDLE)
    clock.batch(1000, s0=[1], s1=[2])
    assert clock.batch(1101, s0=[35]) == {0: 2}
    assert clock.batch(1102, s1=[5, 36]) == {}
    assert clock.late == 1


def test_a_partition_that_never_had_a_record_is_awaited_once() -> None:
    clock = Clock(IDLE)
    assert clock.batch(1000, s0=[1]) == {}
    assert clock.batch(1100, s0=[15]) == {}
    assert clock.batch(1101, s0=[16]) == {0: 1}
