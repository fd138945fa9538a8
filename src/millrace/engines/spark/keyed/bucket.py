"""The keys of a bucket: their records and timers, one after another."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from millrace.engines.spark.keyed.kept import Fields, Kept, check_kept, read, values_of, written

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: Keys that have something to do in the same slot are looked up together.
SLOT = 1_000_000
#: Over more slots than this those that are there are looked at, not each that could be.
_SLOTS = 1_000
_NO_TIMERS = "set_timer is for classes that have on_timer(self, now)"
_PAST = "a timer that is set in on_timer must be later than now.time"


def moment(micros: int) -> datetime:
    """Return a time of its microseconds."""
    return _EPOCH + timedelta(microseconds=micros)


@dataclass(slots=True)
class Now:
    """What code with state may know and do beside its state; times are those of the records."""

    key: Mapping[str, Any]
    #: The greatest time of the key's partition so far; in `on_timer` the time it was set for.
    time: datetime
    _timers: list[int] = field(default_factory=list)
    #: Whether the code has `on_timer`, and whether this is a call of it.
    _timed: bool = True
    _timer: bool = False
    _forgotten: bool = False

    def set_timer(self, at: datetime | timedelta) -> None:
        """Call `on_timer` when the partition's time has come to `at`, or so much later than now."""
        if not self._timed:
            raise TypeError(_NO_TIMERS)
        when = self.time + at if isinstance(at, timedelta) else at
        if self._timer and when <= self.time:
            raise ValueError(_PAST)
        micros = (when - _EPOCH) // _MICROSECOND
        if micros not in self._timers:
            self._timers.append(micros)

    def cancel_timers(self) -> None:
        """Forget the key's timers."""
        self._timers.clear()

    def forget(self) -> None:
        """Forget the key, its timers included."""
        self._forgotten = True


@dataclass(frozen=True, slots=True)
class Turn:
    """A record as it comes to its bucket."""

    key: str
    source: int
    time: int
    #: The greatest time of the partition before it; of the record itself where it is the first.
    before: int
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stores:
    """A bucket's state: what is kept of each key, which keys have something to do, and when.

    `due` is by source and slot; `least` is the first slot of a source that may hold a key.
    """

    keys: MutableMapping[str, dict[str, Any]]
    due: MutableMapping[tuple[int, int], list[str]]
    least: MutableMapping[int, int]


@dataclass(frozen=True, slots=True)
class Program:
    """The user's code: a class with `on_record` and perhaps `on_timer`, or a function."""

    code: Callable[..., Any]
    #: None for a function, whose state is a dict.
    fields: Fields | None
    #: Forget a key after so many microseconds of silence.
    expires: int | None = None

    def fresh(self) -> Any:
        """Return the state of a key that was not there."""
        return {} if self.fields is None else self.code()

    @property
    def timed(self) -> bool:
        """Whether the code takes timers."""
        return hasattr(self.code, "on_timer")

    def on_record(self, state: Any, record: dict[str, Any], now: Now) -> Any:
        """Let the code take a record."""
        return self.code(state, record) if self.fields is None else state.on_record(record, now)


#: What the user's code is called with: its state, and what it may know.
Call = Callable[[Any, Now], Any]


class Bucket:
    """Works through one batch; `keep` writes down what changed.

    `made` makes results of what the code returns. It is part of the call: where it fails, the
    state is as before.
    """

    def __init__(
        self,
        program: Program,
        stores: Stores,
        key_of: Callable[[str], Mapping[str, Any]],
        made: Callable[[Any], Any] = lambda returned: returned,
    ) -> None:
        self._program = program
        self._timed = program.timed
        self._stores = stores
        self._key_of = key_of
        self._made = made
        self._touched: dict[str, Kept | None] = {}

    def timers(self, key: str, mark: int) -> Iterator[tuple[int, Callable[[], Any]]]:
        """Give a source and a call for each timer of a key that is due, to be made one by one."""
        while (known := self._known(key)) is not None:
            due = _next(known, self._program.expires)
            if due > mark:
                return
            if due not in known.timers:
                self._touched[key] = None  # silent for too long
                return
            known.timers.remove(due)
            now = Now(self._key_of(key), moment(due), _timer=True)
            yield known.source, partial(self._called, key, known, now, _on_timer)

    def take(self, turn: Turn) -> Any:
        """Return what a record gives."""
        known = self._known(turn.key)
        if known is None:
            known = Kept(self._program.fresh(), [], turn.source, turn.before)
        at = max(turn.before, turn.time)
        now = Now(self._key_of(turn.key), moment(at), _timed=self._timed)
        program = self._program
        returned = self._called(
            turn.key, known, now, lambda state, now: program.on_record(state, turn.record, now)
        )
        if known.source != turn.source:
            known.source, known.slot = turn.source, None  # its timers go by another clock now
        known.last = at
        return returned

    def _called(self, key: str, known: Kept, now: Now, call: Call) -> Any:
        """Let the user's code work on a key; what is kept is as before if it fails."""
        before = _copied(known.state), list(known.timers)
        now = replace(now, _timers=known.timers)
        try:
            returned = self._made(call(known.state, now))
            if not now._forgotten:
                check_kept(known.state, self._program.fields)
        except BaseException:
            known.state, known.timers = before
            raise
        self._touched[key] = None if now._forgotten else known
        return returned

    def overdue(self, marks: Mapping[int, int]) -> Iterator[tuple[str, int]]:
        """Give the keys that may have something to do, each with its source's time."""
        for key, touched in list(self._touched.items()):
            if touched is not None and touched.source in marks:
                yield key, marks[touched.source]
        for source, mark in marks.items():
            for key in self._waiting(source, mark // SLOT):
                known = self._known(key)
                if known is not None and known.source == source:
                    known.slot = None
                    yield key, mark

    def _waiting(self, source: int, last: int) -> list[str]:
        """Take the keys of a source's slots up to the last one."""
        first = self._stores.least.get(source)
        if first is None or first > last:
            return []
        slots: Iterable[int] = range(first, last + 1)
        if last - first > _SLOTS:
            slots = sorted(at for of, at in self._stores.due if of == source and at <= last)
        found = [key for slot in slots for key in self._stores.due.pop((source, slot), ())]
        self._stores.least[source] = last
        return list(dict.fromkeys(found))

    def keep(self) -> None:
        """Write down what the batch changed."""
        due: dict[tuple[int, int], list[str]] = {}
        for key, known in self._touched.items():
            if known is None:
                self._stores.keys.pop(key, None)
                continue
            at = _next(known, self._program.expires)
            slot = None if at == _NEVER else at // SLOT
            if slot is not None and (known.slot is None or slot < known.slot):
                known.slot = slot
                due.setdefault((known.source, slot), []).append(key)
            self._stores.keys[key] = written(known)
        for (source, slot), keys in due.items():
            self._stores.due[source, slot] = [*self._stores.due.get((source, slot), ()), *keys]
            if slot < self._stores.least.get(source, _NEVER):
                self._stores.least[source] = slot
        self._touched.clear()

    def _known(self, key: str) -> Kept | None:
        if key not in self._touched:
            data = self._stores.keys.get(key)
            if data is None:
                return None
            self._touched[key] = read(data, self._program.code, self._program.fields)
        return self._touched[key]


_NEVER = 2**62
_PLAIN = frozenset({int, float, str, bool, bytes, datetime, type(None)})


def _copied(state: Any) -> Any:
    """A copy that later changes of the state do not reach."""
    plain = all(type(value) in _PLAIN for value in values_of(state).values())
    return copy.copy(state) if plain else copy.deepcopy(state)


def _on_timer(state: Any, now: Now) -> Any:
    return state.on_timer(now)


def _next(known: Kept, expires: int | None) -> int:
    """When a key has something to do: its first timer, or its end."""
    end = _NEVER if expires is None else known.last + expires
    return min([*known.timers, end])
