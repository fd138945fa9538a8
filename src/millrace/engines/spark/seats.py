"""Numbers for groups that Spark deals to its tasks evenly.

Spark gives the groups of a state to tasks by a hash of their numbers, and with few groups two tasks
may have none and all of them. So groups are numbered such that their hashes go round.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import count

#: Hashes go round so many tasks; and so round each number of tasks that divides it.
_ROUND = 64
_SEED = 42
#: For partitions that came after the query was made.
_BEYOND = 1_000_000_000
#: Room for the partitions of an input in the number of a source.
PARTITIONS = 100_000
#: The column that groups are dealt out by.
SEAT = "seat"
_MASK = 0xFFFFFFFF


@cache
def seats(groups: int) -> tuple[int, ...]:
    """Return a number for each of so many groups; a group keeps its own when others are added."""
    found: list[int] = []
    waiting: dict[int, list[int]] = {}
    numbers = count()
    for group in range(groups):
        wanted = group % _ROUND
        while not waiting.get(wanted):
            number = next(numbers)
            waiting.setdefault(_hash(number) % _ROUND, []).append(number)
        found.append(waiting[wanted].pop(0))
    return tuple(found)


def bucket_seat(buckets: int) -> str:
    """Return the SQL of the number of a bucket, which a column `bucket` says."""
    return f"{_seat('bucket', buckets)} AS {SEAT}"


def source_seat(place: int, partition: str, partitions: Sequence[int]) -> str:
    """Return the SQL of the number of a partition of an input, one of several by its place.

    `partitions` is how many each input has. When one of them grows the others keep theirs.
    """
    index = f"({partition} * {len(partitions)} + {place})"
    known = _seat(index, max(partitions) * len(partitions))
    return f"coalesce({known}, {_BEYOND} + {index})"


def _seat(index: str, groups: int) -> str:
    return f"get(array({', '.join(map(str, seats(groups)))}), CAST({index} AS INT))"


def _hash(number: int) -> int:
    """Spark's own hash of a whole number: Murmur 3 of four bytes."""
    mixed = number * 0xCC9E2D51 & _MASK
    mixed = _rotated(mixed, 15) * 0x1B873593 & _MASK
    state = _rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64 & _MASK
    state ^= 4
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    return state ^ state >> 16


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & _MASK
