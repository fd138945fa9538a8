"""Quantities with units: `10 s`, `64 MB`, `100/s`, `3 records`. Exact, never floats."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, Self

_NUMBER: Final = r"([0-9]{1,24}(?:\.[0-9]{1,9})?)"
#: Amounts in base units stay below this, so that they can be written as they are read.
_MOST: Final = 10**24


def _exact(text: str, units: dict[str, int], unit: str) -> int | None:
    """`text` times a unit as a whole number of the base unit, or None if it is not whole."""
    amount = Fraction(text) * units[unit]
    return int(amount) if amount.denominator == 1 and amount < _MOST else None


def _in_units(amount: int, units: dict[str, int]) -> str:
    """The amount in the greatest unit that holds it exactly."""
    for name, size in sorted(units.items(), key=lambda unit: -unit[1]):
        if amount % size == 0 and amount:
            return f"{amount // size} {name}"
    return f"0 {min(units, key=lambda name: units[name])}"


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time, in whole nanoseconds."""

    nanoseconds: int

    UNITS: ClassVar[dict[str, int]] = {
        "ns": 1,
        "us": 1_000,
        "ms": 1_000_000,
        "s": 1_000_000_000,
        "min": 60_000_000_000,
        "h": 3_600_000_000_000,
        "d": 86_400_000_000_000,
    }
    EXPECTED: ClassVar[str] = "a time such as 500 ms, 10 s, 5 min, 2 h or 7 d"
    PATTERN: ClassVar[str] = rf"^{_NUMBER} ?(ns|us|ms|s|min|h|d)$"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read a duration; None if the text is not one."""
        match = re.fullmatch(cls.PATTERN, text)
        amount = match and _exact(match[1], cls.UNITS, match[2])
        return None if amount is None else cls(amount)

    @property
    def seconds(self) -> Fraction:
        """The exact number of seconds."""
        return Fraction(self.nanoseconds, 1_000_000_000)

    def __str__(self) -> str:
        return _in_units(self.nanoseconds, self.UNITS)


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """A number of bytes; bits are written with a small b (`200 Mbit`)."""

    bytes: int

    UNITS: ClassVar[dict[str, int]] = {
        "B": 1,
        "kB": 10**3,
        "MB": 10**6,
        "GB": 10**9,
        "TB": 10**12,
        "KiB": 2**10,
        "MiB": 2**20,
        "GiB": 2**30,
        "TiB": 2**40,
    }
    EXPECTED: ClassVar[str] = "a size such as 512 kB, 64 MB, 1 GiB or 200 Mbit"
    PATTERN: ClassVar[str] = rf"^{_NUMBER} ?(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB|kbit|Mbit|Gbit)$"
    _BITS: ClassVar[dict[str, int]] = {"kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9}

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read a size; None if the text is not one, or not a whole number of bytes."""
        match = re.fullmatch(cls.PATTERN, text)
        if not match:
            return None
        if match[2] in cls._BITS:
            bits = _exact(match[1], cls._BITS, match[2])
            return cls(bits // 8) if bits is not None and bits % 8 == 0 else None
        amount = _exact(match[1], cls.UNITS, match[2])
        return None if amount is None else cls(amount)

    def __str__(self) -> str:
        return _in_units(self.bytes, self.UNITS)


@dataclass(frozen=True, slots=True, order=True)
class Records:
    """A number of records."""

    count: int

    EXPECTED: ClassVar[str] = "a number of records such as 3 or 3 records"
    PATTERN: ClassVar[str] = r"^([0-9]{1,18})(?: ?records?)?$"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read a number of records; None if the text is not one."""
        match = re.fullmatch(cls.PATTERN, text)
        return cls(int(match[1])) if match else None

    def __str__(self) -> str:
        return f"{self.count} record" if self.count == 1 else f"{self.count} records"


@dataclass(frozen=True, slots=True)
class Rate:
    """Records or bytes per time: `100/s`, `1 / 2 ms`, `400 MB/s`."""

    amount: Records | Size
    per: Duration

    EXPECTED: ClassVar[str] = "a rate such as 100/s, 1 / 2 ms or 400 MB/s"
    PATTERN: ClassVar[str] = (
        r"^([0-9]{1,24}(?:\.[0-9]{1,9})?(?: ?[A-Za-z]{1,8})?) ?/ "
        r"?((?:[0-9]{1,24} ?)?(?:ns|us|ms|s|min|h|d))$"
    )

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read a rate; None if the text is not one."""
        match = re.fullmatch(cls.PATTERN, text)
        if not match:
            return None
        per = match[2] if match[2][0].isdigit() else f"1 {match[2]}"
        amount = Records.parse(match[1]) or Size.parse(match[1])
        time = Duration.parse(per)
        return cls(amount, time) if amount and time and time.nanoseconds else None

    @property
    def per_second(self) -> Fraction:
        """The exact number of records, or of bytes, per second."""
        number = self.amount.count if isinstance(self.amount, Records) else self.amount.bytes
        return number / self.per.seconds

    def __str__(self) -> str:
        amount = str(self.amount.count) if isinstance(self.amount, Records) else str(self.amount)
        per = str(self.per)
        return f"{amount}/{per[2:]}" if per.startswith("1 ") else f"{amount} / {per}"


Quantity = Duration | Size | Records | Rate
QUANTITIES: Final = (Duration, Size, Records, Rate)
