"""What the pipeline must give for an input of `vehicles.py`, computed without Spark or Millrace.

    python expected.py --seed 1 --seconds 60 --per-second 200 --out DIR

writes `local-EDGE.jsonl` and `global.jsonl`, a row in each line, and `counts.json`.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

import vehicles

EDGES = {"north": ("1", "2", "3", "4"), "west": ("5", "6", "7"), "south": ("8", "9", "10")}
#: Lengths and steps of the windows, in milliseconds.
LOCAL, GLOBAL = (10_000, 2_000), (60_000, 60_000)
LIMIT = 250
#: Averages are rounded to three decimals, and may have been summed in any order.
TOLERANCE = 0.0015


class Row(TypedDict):
    """A window's result, as the pipeline's `summary` has it."""

    start: str
    vehicles: int
    speed: float


@dataclass(frozen=True)
class Passing:
    """A record as the pipeline reads it; `at` is in milliseconds since 1970."""

    vehicle: str | None
    speed: float | None
    at: int | None


@dataclass(frozen=True)
class Expected:
    """Fates of records for each sensor, and the results of each edge and of all."""

    malformed: Mapping[str, int]
    filtered: Mapping[str, int]
    used: Mapping[str, int]
    local: Mapping[str, Sequence[Row]]
    total: Sequence[Row]


def read(value: bytes) -> Passing | None:
    """Return what a value says, or None if it is malformed.

    Malformed is what Spark's `from_json` flags or makes null; a missing field isn't.
    """
    try:
        found = json.loads(value.decode(errors="replace"))
        if not isinstance(found, dict):
            return None
        vehicle, speed, at = (found.get(name) for name in ("vehicle", "speed", "at"))
        return Passing(
            None if vehicle is None else str(vehicle),
            None if speed is None else _number(speed),
            None if at is None else round(datetime.fromisoformat(at).timestamp() * 1000),
        )
    except (ValueError, TypeError):
        return None


def _number(found: object) -> float:
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise TypeError(found)
    return float(found)


def cleaned(passing: Passing) -> bool:
    """Whether the jobs `clean` let a passing through."""
    known = passing.vehicle is not None and passing.speed is not None
    return known and 0 <= (passing.speed or 0) <= LIMIT


def windows(passings: Iterable[Passing], length: int, step: int) -> list[Row]:
    """Return the rows of all windows that hold a passing; they begin at multiples of `step`."""
    speeds: defaultdict[int, list[float]] = defaultdict(list)
    for passing in passings:
        if passing.at is None or passing.speed is None:
            continue
        last = passing.at - passing.at % step
        for start in range(last, passing.at - length, -step):
            speeds[start].append(passing.speed)
    return [
        Row(
            start=_time(start),
            vehicles=len(found),
            speed=round(math.fsum(found) / len(found), 3),
        )
        for start, found in sorted(speeds.items())
    ]


def expected(records: Mapping[str, Iterable[vehicles.Stored]]) -> Expected:
    """Return what the pipeline must give for the records of all sensors, without closing ones."""
    malformed, filtered, used = Counter[str](), Counter[str](), Counter[str]()
    passed: defaultdict[str, list[Passing]] = defaultdict(list)
    for sensor, stored in records.items():
        for _, _, value in stored:
            passing = read(value)
            if passing is None:
                malformed[sensor] += 1
            elif not cleaned(passing):
                filtered[sensor] += 1
            else:
                used[sensor] += 1
                passed[sensor].append(passing)
    local = {
        edge: windows([item for sensor in sensors for item in passed[sensor]], *LOCAL)
        for edge, sensors in EDGES.items()
    }
    total = windows([item for found in passed.values() for item in found], *GLOBAL)
    return Expected(malformed, filtered, used, local, total)


def differences(found: Iterable[Row], wanted: Iterable[Row]) -> list[str]:
    """Return what is missing, too much, twice or wrong in the rows of one stream; [] if nothing."""
    rows: defaultdict[datetime, list[Row]] = defaultdict(list)
    for row in found:
        rows[datetime.fromisoformat(row["start"])].append(row)
    problems = []
    for want in wanted:
        here = rows.pop(datetime.fromisoformat(want["start"]), [])
        if len(here) != 1:
            problems.append(f"{want['start']}: {len(here)} rows instead of one")
        elif not _equal(here[0], want):
            problems.append(f"{want['start']}: {here[0]} instead of {want}")
    return problems + [f"{start}: not expected, {extra}" for start, extra in sorted(rows.items())]


def _equal(one: Row, other: Row) -> bool:
    near = abs(one["speed"] - other["speed"]) <= TOLERANCE
    return near and one["vehicles"] == other["vehicles"]


def _time(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write(folder: Path, what: Expected) -> None:
    """Write the rows of each stream to a file of its name, and the counts."""
    folder.mkdir(parents=True, exist_ok=True)
    streams = {f"local-{edge}": rows for edge, rows in what.local.items()}
    for name, rows in {**streams, "global": what.total}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fates = {"malformed": what.malformed, "filtered": what.filtered, "used": what.used}
    (folder / "counts.json").write_text(json.dumps(fates, indent=2) + "\n")


def main() -> None:
    """Write what the pipeline must give."""
    given = vehicles.arguments("Write what the pipeline must give.").parse_args()
    made = vehicles.records(given.seed, vehicles.SENSORS, given.seconds, given.per_second)
    write(given.out, expected(made))


if __name__ == "__main__":
    main()
