"""What a change costs, and how a declared field says so."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field
from enum import IntEnum
from typing import Any, Final


class Impact(IntEnum):
    """Ordered by cost: a step takes the greatest of its reasons."""

    IGNORE = 0
    RESCALE = 1
    RESTART = 2
    REPLACE = 3
    STATE_LOST = 4

    @property
    def text(self) -> str:
        """The words users see."""
        return _TEXT[self]


_TEXT: Final = {
    Impact.IGNORE: "in place",
    Impact.RESCALE: "rescale",
    Impact.RESTART: "restart with state",
    Impact.REPLACE: "replace",
    Impact.STATE_LOST: "state lost",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """What a field of a declared thing means in a file."""

    doc: str
    change: Impact
    key: str | None = None
    example: str = ""


def setting(
    doc: str,
    *,
    change: Impact = Impact.STATE_LOST,
    default: Any = MISSING,
    key: str | None = None,
    example: str = "",
) -> Any:
    """Declare a field; one that does not say what changing it costs costs the most."""
    return field(
        default=default, metadata={"setting": Setting(doc, change, key, example)}, kw_only=True
    )
