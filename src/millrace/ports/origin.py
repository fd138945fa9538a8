"""The headers that engines give to what they write, and what the first of them tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from millrace.ports.log import Record

#: Who wrote a record and from which one; then, on some, the times of its hops; why it is dead.
ORIGIN_HEADER: Final = "millrace-origin"
TIMES_HEADER: Final = "millrace-times"
CAUSE_HEADER: Final = "millrace-cause"
#: The batch of a query that it was written in, where it is in a transaction.
BATCH_HEADER: Final = "millrace-batch"
_PARTS = 5


@dataclass(frozen=True, slots=True)
class Origin:
    """The record that a record was made of; `index` counts those made of the same one."""

    #: The pipeline's name and the job's, with a slash between them.
    job: str
    stream: str
    partition: int
    position: int
    index: int


def origin_of(record: Record) -> Origin | None:
    """Return where a record came from; None where its job lost it or it came from outside."""
    parts = (record.header(ORIGIN_HEADER) or b"").decode("utf-8", "replace").split(" ")
    if len(parts) != _PARTS:
        return None
    try:
        return Origin(parts[0], parts[1], int(parts[2]), int(parts[3]), int(parts[4]))
    except ValueError:
        return None
