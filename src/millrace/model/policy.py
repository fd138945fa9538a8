"""What a job does when things go wrong, stop or end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from millrace.model.impact import Impact, setting
from millrace.model.quantity import Duration
from millrace.model.types import Natural


class OverloadPolicy(StrEnum):
    """A log keeps all or skips ahead; a direct stream blocks or drops."""

    KEEP = "keep"
    DROP_OLDEST = "drop-oldest"
    BLOCK = "block"
    DROP = "drop"


@dataclass(frozen=True)
class Overload:
    """What happens when a job can't keep up."""

    SHORT: ClassVar[str | None] = "policy"

    policy: OverloadPolicy = setting(
        "what happens", change=Impact.RESTART, default=OverloadPolicy.KEEP
    )
    after: Duration | None = setting(
        "how far behind it may be first", change=Impact.RESTART, default=None, key="at"
    )


class ErrorPolicy(StrEnum):
    """What happens to a record whose code fails."""

    SKIP = "skip"
    RETRY = "retry"
    STOP = "stop"


@dataclass(frozen=True)
class OnError:
    """The error policy per record of `map` and keyed state."""

    SHORT: ClassVar[str | None] = "policy"

    policy: ErrorPolicy = setting("what happens", change=Impact.RESTART, default=ErrorPolicy.SKIP)
    retries: Natural = setting(
        "how often to try again before it is skipped", change=Impact.RESTART, default=0
    )


class CheckpointAt(StrEnum):
    """Where a checkpoint is kept."""

    LOCAL = "local"
    SHARED = "shared"


@dataclass(frozen=True)
class Checkpoint:
    """How often and where progress is kept."""

    SHORT: ClassVar[str | None] = "every"

    every: Duration = setting(
        "the length of a real-time batch",
        change=Impact.RESTART,
        default=Duration(30 * Duration.UNITS["s"]),
    )
    place: CheckpointAt = setting(
        "`shared` survives the loss of the site",
        change=Impact.REPLACE,
        default=CheckpointAt.LOCAL,
        key="at",
    )


class EndWhen(StrEnum):
    """When a job is over."""

    INPUTS = "inputs"
    NEVER = "never"


@dataclass(frozen=True)
class End:
    """A job ends with its inputs, never, or after a time."""

    SHORT: ClassVar[str | None] = "when"

    when: EndWhen = setting(
        "`inputs`: when all of them have ended", change=Impact.RESTART, default=EndWhen.INPUTS
    )
    after: Duration | None = setting(
        "at the latest after this time", change=Impact.RESTART, default=None
    )


@dataclass(frozen=True)
class Failover:
    """Puts a job under a lease, so that it may start elsewhere."""

    SHORT: ClassVar[str | None] = "after"

    after: Duration = setting("how long its site may be silent", change=Impact.IGNORE)
