"""Sums that do not depend on the order of what is added: exact, and rounded once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

#: What a sum counts: units of 2**-FRACTION, the least power of two that a part of a double has.
FRACTION = 1152
_BITS = 32
_LOW = np.int64(0xFFFFFFFF)
_MANTISSA = 53
#: So many values of 32 bits add up exactly in a double.
_MOST = 2**20


def of_doubles(values: Any, groups: Any, count: int) -> list[int]:
    """Return the exact sum of the finite values of each group, in units of 2**-FRACTION."""
    fraction, exponent = np.frexp(values)
    whole = np.ldexp(fraction, _MANTISSA).astype(np.int64)
    scale = exponent.astype(np.int64) - _MANTISSA + FRACTION
    shift, place = scale % _BITS, scale // _BITS
    low = (whole & _LOW).astype(np.uint64) << shift.astype(np.uint64)
    high = (whole >> _BITS) << shift
    middle = (low >> np.uint64(_BITS)).astype(np.int64) + high
    first = (low & np.uint64(_LOW)).astype(np.int64)
    sums = [0] * count
    for at in np.unique(place):
        chosen = np.flatnonzero(place == at)
        parts = (first[chosen], middle[chosen] & _LOW, middle[chosen] >> _BITS)
        for up, part in enumerate(parts):
            _add(sums, part, groups[chosen], int(at) + up)
    return sums


def of_integers(values: Any, groups: Any, count: int) -> list[int]:
    """Return the exact sum of the values of each group."""
    sums = [0] * count
    _add(sums, values & _LOW, groups, 0)
    _add(sums, values >> _BITS, groups, 1)
    return sums


def _add(sums: list[int], parts: Any, groups: Any, place: int) -> None:
    """Add parts of 32 bits to the sums of their groups, at a place of 32 bits."""
    for begin in range(0, len(parts), _MOST):
        piece = slice(begin, begin + _MOST)
        totals = np.bincount(groups[piece], weights=parts[piece], minlength=len(sums))
        for group in np.flatnonzero(totals):
            sums[group] += int(totals[group]) << (_BITS * place)


def double(total: int) -> float:
    """Return a sum of doubles, rounded once."""
    return quotient(total, 1, doubles=True)


def quotient(total: int, count: int, *, doubles: bool) -> float:
    """Return the mean of `count` values, rounded once."""
    try:
        return total / (count << FRACTION) if doubles else total / count
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def packed(total: int) -> bytes:
    """Return a sum as bytes."""
    return total.to_bytes(total.bit_length() // 8 + 1, "little", signed=True)


def unpacked(data: bytes) -> int:
    """Return a sum of its bytes."""
    return int.from_bytes(data, "little", signed=True)
