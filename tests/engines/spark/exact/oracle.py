"""Windows in plain Python, record by record: what results must be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Seen:
    """A record: its time, its key, its value or none."""

    time: int
    key: str
    value: float | int | None


@dataclass(frozen=True)
class Rule:
    """A window; times in whatever unit the records have."""

    length: int = 0
    slide: int = 0
    gap: int | None = None
    lateness: int = 0


@dataclass(frozen=True)
class Truth:
    """What the windows of some partitions come to."""

    #: (begin, end, key) to (rows, count, sum, mean, least, greatest).
    closed: Mapping[tuple[int, int, str], tuple[object, ...]]
    #: By partition, the places of late records.
    late: Mapping[int, Sequence[int]]


def truth(partitions: Sequence[Sequence[Seen]], rule: Rule) -> Truth:
    """Work it out from the definitions."""
    late: dict[int, list[int]] = {}
    on_time: list[Seen] = []
    for number, records in enumerate(partitions):
        late[number] = []
        for place, record in enumerate(records):
            before = [earlier.time for earlier in records[:place]]
            if before and record.time < max(before) - rule.lateness:
                late[number].append(place)
            else:
                on_time.append(record)
    if not all(partitions):
        return Truth({}, late)
    mark = min(max(record.time for record in records) for records in partitions) - rule.lateness
    windows = _sessions(on_time, rule.gap) if rule.gap is not None else _spans(on_time, rule)
    closed = {span: _summary(held) for span, held in windows.items() if span[1] <= mark}
    return Truth(closed, late)


def _spans(records: Sequence[Seen], rule: Rule) -> dict[tuple[int, int, str], list[Seen]]:
    found: dict[tuple[int, int, str], list[Seen]] = defaultdict(list)
    for record in records:
        begin = record.time // rule.slide * rule.slide
        while begin > record.time - rule.length:
            found[begin, begin + rule.length, record.key].append(record)
            begin -= rule.slide
    return found


def _sessions(records: Sequence[Seen], gap: int) -> dict[tuple[int, int, str], list[Seen]]:
    found: dict[tuple[int, int, str], list[Seen]] = {}
    for key in {record.key for record in records}:
        held: list[Seen] = []
        for record in sorted((r for r in records if r.key == key), key=lambda r: r.time):
            if held and record.time >= held[-1].time + gap:
                found[held[0].time, held[-1].time + gap, key] = held
                held = []
            held.append(record)
        found[held[0].time, held[-1].time + gap, key] = held
    return found


def _summary(records: Sequence[Seen]) -> tuple[object, ...]:
    values = [record.value for record in records if record.value is not None]
    if not values:
        return len(records), 0, None, None, None, None
    total = sum(map(Fraction, values), Fraction(0))
    whole = all(isinstance(value, int) for value in values)
    return (
        len(records),
        len(values),
        int(total) if whole else float(total),
        float(total / len(values)),
        min(values),
        max(values),
    )
