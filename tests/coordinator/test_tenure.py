"""One coordinator at a time: who may take over, and what an old one can still do."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from millrace.coordinator import tenure
from millrace.coordinator.tenure import STILL_SECONDS, Around, Holder, Superseded, Tenure, take
from millrace.errors import OperationFailed
from millrace.ports import Change, Entry, EntryKind
from millrace.stores.sqlite import SqliteStore
from millrace.testing.memory_store import MemoryStore


@dataclass
class Time:
    """A clock that goes on when somebody sleeps; `each` is called then."""

    dead: set[int] = field(default_factory=set)
    now: float = 0.0
    each: Callable[[], None] = lambda: None

    def around(self) -> Around:
        return Around(lambda holder: holder.pid not in self.dead, lambda: self.now, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.each()


def holder(pid: int, host: str = "here") -> Holder:
    return Holder(host, pid, 1.0)


def test_a_coordinator_that_beats_is_left_alone() -> None:
    store, time = MemoryStore(), Time()
    first = take(store, holder(1), time.around())
    time.each = first.beat
    with pytest.raises(OperationFailed) as caught:
        take(store, holder(2), time.around())
    assert caught.value.code == "already-up"
    assert "process 1 at here" in caught.value.message
    assert time.now < 5
    first.commit(Change({("job", "a"): {}}))


def test_one_whose_process_is_gone_is_replaced_at_once() -> None:
    store, time = MemoryStore(), Time()
    first = take(store, holder(1), time.around())
    time.dead.add(1)
    second = take(store, holder(2), time.around())
    assert (first.generation, second.generation, time.now) == (1, 2, 0.0)


def test_a_generation_is_raised_above_one_that_somebody_names() -> None:
    store, time = MemoryStore(), Time()
    take(store, holder(1), time.around(), above=6)
    time.dead |= {1, 2}
    found = [take(store, holder(2), time.around(), above=above).generation for above in (0, 3, 12)]
    assert found == [8, 9, 13]
    told = [entry.detail for entry in store.entries(0, 10)]
    assert told == [{"generation": 7, "above": 6}, {"generation": 13, "above": 12}]


def test_above_lets_nobody_take_what_another_has() -> None:
    store, time = MemoryStore(), Time()
    first = take(store, holder(1), time.around())
    time.each = first.beat
    with pytest.raises(OperationFailed, match="already"):
        take(store, holder(2), time.around(), above=9)
    first.beat()


@pytest.mark.parametrize("host", ["here", "elsewhere"])
def test_one_that_sleeps_is_replaced_and_can_do_nothing_when_it_wakes(host: str) -> None:
    """Its process is there, or can't be looked at, and its beat stands still."""
    store, time = MemoryStore(), Time()
    first = take(store, holder(1), time.around())
    first.beat()
    if host != "here":
        time.dead.add(1)  # which is another process here
    second = take(store, holder(2, host), time.around())
    assert time.now >= STILL_SECONDS
    second.commit(Change({("job", "a"): {"by": 2}}))
    for act in (first.beat, lambda: first.commit(Change({("job", "a"): {"by": 1}}))):
        with pytest.raises(Superseded):
            act()
    assert store.load("job") == {"a": {"by": 2}}
    second.beat()


def test_of_many_who_take_over_one_does(tmp_path: Path) -> None:
    time = Time()
    stores = [SqliteStore(tmp_path / "state.db") for _ in range(6)]
    take(stores[0], holder(1), time.around())
    time.dead.add(1)

    def attempt(number: int) -> Tenure | None:
        try:
            return take(stores[number], holder(10 + number), time.around())
        except OperationFailed:
            return None

    with ThreadPoolExecutor(6) as pool:
        won = [tenure for tenure in pool.map(attempt, range(6)) if tenure is not None]
    live = [tenure for tenure in won if _commits(tenure)]
    assert len(live) == 1
    assert live[0].generation == max(tenure.generation for tenure in won)
    for store in stores:
        store.close()


def _commits(tenure: Tenure) -> bool:
    try:
        tenure.beat()
    except Superseded:
        return False
    return True


def test_the_journal_does_not_grow_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes is the oldest; a compaction that fails costs no change."""
    monkeypatch.setattr(tenure, "KEPT_ENTRIES", 20)
    monkeypatch.setattr(tenure, "SPARE_ENTRIES", 10)
    store = SqliteStore(tmp_path / "state.db")
    mine = take(store, holder(1), Time().around())
    for number in range(1, 76):
        told = Entry(EntryKind.EVENT, "p", {"number": number})
        assert mine.commit(Change(entries=(told,))) == number
    assert [entry.number for entry in store.entries(0, 100)] == list(range(51, 76))
    store.close()
    full = Full(tmp_path / "state.db")
    other = take(full, holder(2), Time({1}).around())
    for _ in range(10):
        other.commit(Change(entries=(Entry(EntryKind.EVENT, "p", {}),)))
    assert len(full.entries(0, 100)) == 35


class Full(SqliteStore):
    """A store whose disk has no room to be tidied up."""

    def compact(self, before: int) -> None:
        raise OperationFailed("disk-full", f"no room for what is before {before}")
