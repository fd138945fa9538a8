"""Windows: how an unbounded stream is cut into packets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from millrace.model.impact import setting
from millrace.model.quantity import Duration, Records


class Late(StrEnum):
    """What becomes of late records."""

    COUNT = "count"
    KEEP = "keep"


@dataclass(frozen=True)
class Window:
    """By event time (a column), by wall clock or by capacity; tumbling, sliding or session."""

    SHORT: ClassVar[str | None] = "of"
    WALLCLOCK: ClassVar[str] = "wallclock"

    of: Duration | Records | None = setting(
        "its length: a time, or a number of records (capacity)", default=None, example="10 s"
    )
    every: Duration | Records | None = setting(
        "how far it slides; by default its length (tumbling)", default=None
    )
    gap: Duration | None = setting(
        "ends a session after this much silence; instead of `of`", default=None
    )
    by: str | None = setting(
        "the timestamp column, or `wallclock`; by default wallclock for times", default=None
    )
    per: tuple[str, ...] = setting("the columns whose values have windows apart", default=())
    lateness: Duration | None = setting("how long late records are waited for", default=None)
    late: Late | None = setting(
        "what becomes of later ones, exactly; without it the engine's own, faster windows are "
        "taken, which may use some of them",
        default=None,
    )
    idle: Duration | None = setting(
        "a partition silent for this long holds windows back no more", default=None
    )
    inverse: str | None = setting(
        "a function that takes a record out again, for sliding windows", default=None
    )

    @property
    def kind(self) -> str:
        """Return `capacity`, `wallclock` or `timestamp`."""
        if isinstance(self.of, Records):
            return "capacity"
        return "wallclock" if self.by in (None, self.WALLCLOCK) else "timestamp"

    @property
    def ticks(self) -> bool:
        """Return whether it may close though no record comes."""
        return self.kind == "wallclock" or (self.kind == "timestamp" and self.idle is not None)

    @property
    def shape(self) -> str:
        """Return `session`, `sliding` or `tumbling`."""
        if self.gap is not None:
            return "session"
        return "tumbling" if self.every in (None, self.of) else "sliding"
