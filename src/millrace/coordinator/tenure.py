"""Who coordinates: one at a time, each with a higher generation than the one before.

A coordinator keeps a lease in the store and beats. Whoever finds the beat still for a while, by its
own clock, or its process gone, takes over. All that a coordinator keeps is kept on the condition
that the lease is still its own: one that slept meanwhile can do nothing when it wakes.

A lease says who has a store; of copies of the store it knows nothing. So no coordinator raises its
generation by itself: see decision 21.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field

from millrace.errors import OperationFailed
from millrace.machine.failpoint import reach
from millrace.ports import Change, Conflict, Document, Entry, EntryKind, Store

_KIND = "coordinator"
LEASE, BEAT = (_KIND, "lease"), (_KIND, "beat")
#: How often a coordinator beats, and how long its beat may stand still.
BEAT_SECONDS = 2.0
STILL_SECONDS = 15.0
#: So many entries of the journal are kept, and so many come before those before them go.
KEPT_ENTRIES = 100_000
SPARE_ENTRIES = 10_000


@dataclass(frozen=True, slots=True)
class Holder:
    """A process: where it runs, its number, and when it began, for numbers are given again."""

    host: str
    pid: int
    born: float


@dataclass(frozen=True, slots=True)
class Around:
    """What a coordinator knows of the world to judge another by."""

    #: Whether a process of this host runs.
    alive: Callable[[Holder], bool]
    #: Seconds that only go forward.
    clock: Callable[[], float]
    sleep: Callable[[float], None]


class Superseded(OperationFailed):
    """Another coordinator has taken over: this one must do nothing more."""

    def __init__(self) -> None:
        super().__init__(
            "superseded",
            "another coordinator has taken over",
            "it serves this state now; this one ends",
        )


@dataclass(slots=True)
class Tenure:
    """The right to change a store, for as long as nobody else took it."""

    store: Store
    generation: int
    holder: Holder
    _beats: int = field(default=0)
    #: The number of the journal's last entry; 0 before the first commit.
    _last: int = field(default=0)

    def commit(self, change: Change) -> int:
        """Keep a change; raises `Superseded`, with nothing kept, where the right is another's."""
        lease = _lease(self.generation, self.holder)
        places = _places(change)
        for name in places:
            reach(f"{name}.before")
        try:
            number = self.store.commit(change + Change(expects={LEASE: lease}))
        except Conflict as conflict:
            if conflict.key == LEASE:
                raise Superseded from conflict
            raise
        for name in places:
            reach(f"{name}.after")
        self._forget(number)
        return number

    def _forget(self, last: int) -> None:
        """Let go of old entries of the journal, now and then; a failure is the next time's."""
        before, self._last = self._last or last, last
        if last // SPARE_ENTRIES > before // SPARE_ENTRIES and last > KEPT_ENTRIES:
            with suppress(OperationFailed):
                self.store.compact(last - KEPT_ENTRIES + 1)

    def check(self) -> None:
        """Raise `Superseded` where the right is another's."""
        if self.store.load(_KIND).get("lease") != _lease(self.generation, self.holder):
            raise Superseded

    def beat(self) -> None:
        """Show that this coordinator is there."""
        self._beats += 1
        self.commit(Change({BEAT: {"beats": self._beats}}))


def _places(change: Change) -> list[str]:
    """The names of the failpoints around a commit: what the journal is told in it, if anything."""
    told = sorted({f"journal.{entry.kind.value}" for entry in change.entries})
    return told or ["store.commit"]


def _lease(generation: int, holder: Holder) -> dict[str, object]:
    return {"generation": generation, **asdict(holder)}


def _holder_of(lease: Document) -> Holder:
    return Holder(lease["host"], lease["pid"], lease["born"])


def take(store: Store, holder: Holder, around: Around, above: int = 0) -> Tenure:
    """Return the right to change a store; waits no longer than a beat may stand still.

    Its generation is higher than the last one of the store, and than `above`, for which somebody
    vouches: that no coordinator of a copy of this store is up. Raises where another coordinator has
    the right and beats.
    """
    known = store.load(_KIND)
    found = known.get("lease")
    last = 0
    if found is not None:
        last = int(found["generation"])
        other = _holder_of(found)

        def gone() -> bool:  # of a process elsewhere nobody knows here
            return other.host == holder.host and not around.alive(other)

        _wait_still(store, known.get("beat"), other, around, gone)
    generation = max(last, above) + 1
    lease = _lease(generation, holder)
    raised = Entry(EntryKind.EVENT, "coordinator", {"generation": generation, "above": above})
    told = (raised,) if above > last else ()
    try:
        store.commit(
            Change({LEASE: lease, BEAT: {"beats": 0}}, entries=told, expects={LEASE: found})
        )
    except Conflict as conflict:
        raise _held(_holder_of(conflict.found or lease)) from None
    return Tenure(store, generation, holder)


def _wait_still(
    store: Store, beat: object, other: Holder, around: Around, gone: Callable[[], bool]
) -> None:
    """Return when the other is gone, or its beat stood still for long; raises when it goes on."""
    until = around.clock() + STILL_SECONDS
    while around.clock() < until and not gone():
        if store.load(_KIND).get("beat") != beat:
            raise _held(other)
        around.sleep(BEAT_SECONDS / 4)


def _held(other: Holder) -> OperationFailed:
    return OperationFailed(
        "already-up",
        f"a coordinator serves this state already (process {other.pid} at {other.host})",
        "use that one, stop it first, or give this one another --home",
    )
