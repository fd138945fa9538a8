"""The keys of a bucket: their records and timers, one after another."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from millrace.engines.spark.keyed.kept import Fields, Kept, read, written

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: Keys that have something to do in the same slot are looked up together.
SLOT = 1_000_000


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
    _forgotten: bool = False

    def set_timer(self, at: datetime | timedelta) -> None:
        """Call `on_timer` when the partition's time has come to `at`, or so much later than now."""
        when = self.time + at if isinstance(at, timedelta) else at
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

    `due` is by source and slot.
    """

    keys: MutableMapping[str, bytes]
    due: MutableMapping[tuple[int, int], list[str]]


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

    def on_record(self, state: Any, record: dict[str, Any], now: Now) -> Any:
        """Let the code take a record."""
        return self.code(state, record) if self.fields is None else state.on_record(record, now)


class Bucket:
    """Works through one batch; `keep` writes down what changed."""

    def __init__(
        self, program: Program, stores: Stores, key_of: Callable[[str], Mapping[str, Any]]
    ) -> None:
        self._program = program
        self._stores = stores
        self._key_of = key_of
        self._touched: dict[str, Kept | None] = {}

    def timers(self, key: str, mark: int) -> Iterator[Callable[[], Any]]:
        """Give calls for the timers of a key that are due, each to be made before the next."""
        while (known := self._known(key)) is not None:
            due = _next(known, self._program.expires)
            if due > mark:
                return
            if due not in known.timers:
                self._touched[key] = None  # silent for too long
                return
            known.timers.remove(due)
            yield partial(self._called, key, known, moment(due), known.state.on_timer)

    def take(self, turn: Turn) -> Any:
        """Return what a record gives."""
        known = self._known(turn.key)
        if known is None:
            known = Kept(self._program.fresh(), [], turn.source, turn.before)
        at = max(turn.before, turn.time)
        returned = self._called(
            turn.key,
            known,
            moment(at),
            lambda now: self._program.on_record(known.state, turn.record, now),
        )
        known.source, known.last = turn.source, at
        return returned

    def _called(self, key: str, known: Kept, time: datetime, call: Callable[[Now], Any]) -> Any:
        """Let the user's code work on a key; what is kept is as before if it fails."""
        before = _copied(known.state), list(known.timers)
        now = Now(self._key_of(key), time, known.timers)
        try:
            returned = call(now)
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
        slots = [
            at for at in self._stores.due if at[1] * SLOT <= marks.get(at[0], at[1] * SLOT - 1)
        ]
        for source, slot in sorted(slots):
            for key in self._stores.due.pop((source, slot)):
                known = self._known(key)
                if known is not None and known.source == source:
                    known.slot = None
                    self._touched[key] = known
                    yield key, marks[source]

    def keep(self) -> None:
        """Write down what the batch changed."""
        for key, known in self._touched.items():
            if known is None:
                self._stores.keys.pop(key, None)
                continue
            due = _next(known, self._program.expires)
            slot = None if due == _NEVER else -(-due // SLOT)
            if slot is not None and (known.slot is None or slot < known.slot):
                known.slot = slot
                place = (known.source, slot)
                self._stores.due[place] = [*self._stores.due.get(place, []), key]
            self._stores.keys[key] = written(known)
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
    values = state.values() if isinstance(state, dict) else vars(state).values()
    plain = all(type(value) in _PLAIN for value in values)
    return copy.copy(state) if plain else copy.deepcopy(state)


def _next(known: Kept, expires: int | None) -> int:
    """When a key has something to do: its first timer, or its end."""
    end = _NEVER if expires is None else known.last + expires
    return min([*known.timers, end])
