"""Synthetic vehicles that pass sensors: seeded, with mistakes, and out of order in a known measure.

    python vehicles.py --seed 1 --seconds 60 --per-second 200 --out DIR

writes `raw-N.jsonl` for each sensor N, each line as it is to be sent, and `closing-N.jsonl`:
records of an hour later that close all windows. Send those only after all others have passed the
pipeline, or they make the rest late.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from zlib import crc32

SENSORS = tuple(str(number) for number in range(1, 11))
START = datetime(2026, 1, 5, 8, tzinfo=UTC)
#: Partitions of a sensor's stream, and of the widest stream below it (`merged`).
PARTITIONS, WIDEST = 2, 6
#: The fastest that the pipeline believes, in km/h.
LIMIT = 250
#: How long after its measurement a delayed record is sent, in seconds. The windows allow 5 s and
#: 10 s; the rest is for sensors that are read at different speed.
DELAY = (0.5, 2.0)
DELAYED, ERRONEOUS, BROKEN = 0.10, 0.01, 0.01
FLEET = 500

Sent = tuple[float, str, bytes | None, bytes]
Stored = tuple[int, bytes | None, bytes]


def timeline(
    seed: int, seconds: float, per_second: float, sensors: Sequence[str] = SENSORS
) -> list[Sent]:
    """Return (seconds after the start, sensor, key, value) of all sensors in the order of sending.

    `per_second` is the rate of all sensors together. The same arguments give the same bytes.
    """
    count = round(seconds * per_second / len(sensors))
    sent = [item for sensor in sensors for item in _of_sensor(seed, sensor, seconds, count)]
    return sorted(sent, key=lambda item: item[0])


def records(
    seed: int, sensors: Sequence[str], seconds: float, per_second: float
) -> dict[str, list[Stored]]:
    """Return for each sensor its (partition, key, value) in the order of sending."""
    found: dict[str, list[Stored]] = {sensor: [] for sensor in sensors}
    for _, sensor, key, value in timeline(seed, seconds, per_second, sensors):
        found[sensor].append((partition(key or value), key, value))
    return found


def closing(sensors: Sequence[str], seconds: float) -> dict[str, list[Stored]]:
    """Return for each sensor the records that close all windows before them.

    They are of one moment, so no window of their own closes. Their keys reach each partition of
    each stream, for windows that wait for all partitions.
    """
    at = seconds + 3600
    keys = [_key_of_partition(number) for number in range(WIDEST)]
    stored = [(partition(key), key, _passing(key.decode(), 0.0, at)) for key in keys]
    return {sensor: list(stored) for sensor in sensors}


def partition(key: bytes, count: int = PARTITIONS) -> int:
    """Return the partition of a key, as the client of Kafka and Millrace choose it."""
    return crc32(key) % count


def stream(sensor: str) -> str:
    """Return the name of a sensor's stream."""
    return f"raw-{sensor}"


def _key_of_partition(number: int) -> bytes:
    names = (f"closing-{index}".encode() for index in range(1000))
    return next(name for name in names if partition(name, WIDEST) == number)


def _of_sensor(seed: int, sensor: str, seconds: float, count: int) -> list[Sent]:
    """Return what one sensor sends: it comes in waves, and the denser the slower."""
    random = Random(f"{seed}/{sensor}")  # noqa: S311 - repeatable, not secret
    waves, rising = 1 + crc32(sensor.encode()) % 3, random.choice((-1, 1))
    usual = random.uniform(70, 120)
    sent = []
    for _ in range(count):
        even = random.random() * seconds
        angle = 2 * math.pi * waves * even / seconds
        offset = even - rising * 0.5 * seconds / (2 * math.pi * waves) * math.sin(angle)
        speed = min(max(random.gauss(usual - rising * 25 * math.cos(angle), 8), 5), LIMIT - 1)
        delay = random.uniform(*DELAY) if random.random() < DELAYED else 0.0
        key, value = _written(random, round(speed * 4) / 4, max(offset - delay, 0))
        sent.append((offset, sensor, key, value))
    return sent


def _written(random: Random, speed: float, at: float) -> tuple[bytes | None, bytes]:
    """Return key and value of a passing, right or with one of the mistakes."""
    vehicle = f"IT-{random.randrange(FLEET):05}"
    chance = random.random()
    if chance < BROKEN:
        return None, _broken(random, vehicle, speed, at)
    if chance < BROKEN + ERRONEOUS:
        return _erroneous(random, vehicle, speed, at)
    return vehicle.encode(), _passing(vehicle, speed, at)


def _broken(random: Random, vehicle: str, speed: float, at: float) -> bytes:
    """Return what is no passing: cut off, noise, or text in the place of a number or time."""
    good = _passing(vehicle, speed, at)
    kind = random.randrange(5)
    if kind == 0:
        return good[: random.randrange(1, len(good))]
    if kind == 1:
        # No line ends, for the files have one record in a line; the first byte is never UTF-8.
        noise = random.choices([byte for byte in range(256) if byte not in b"\r\n"], k=40)
        return bytes([0xFF, *noise])
    if kind == 2:
        return _line(vehicle=vehicle, speed="fast", at=_time(at))
    if kind == 3:
        return _line(vehicle=vehicle, speed=speed, at="yesterday")
    return b"null"


def _erroneous(random: Random, vehicle: str, speed: float, at: float) -> tuple[bytes | None, bytes]:
    """Return what is well written and can't be: a speed, or a passing of no vehicle."""
    kind = random.randrange(5)
    if kind == 0:
        return vehicle.encode(), _passing(vehicle, -1 - speed, at)
    if kind == 1:
        return vehicle.encode(), _passing(vehicle, LIMIT + 0.25 + speed, at)
    if kind == 2:
        return None, _passing(None, speed, at)
    if kind == 3:
        return None, _line(speed=speed, at=_time(at))
    return None, b"{}"


def _passing(vehicle: str | None, speed: float, at: float) -> bytes:
    return _line(vehicle=vehicle, speed=speed, at=_time(at))


def _line(**fields: str | float | None) -> bytes:
    return json.dumps(fields).encode()


def _time(at: float) -> str:
    moment = START + timedelta(milliseconds=round(at * 1000))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write(folder: Path, name: str, of: Mapping[str, Sequence[Stored]]) -> None:
    """Write one file `name-SENSOR.jsonl` for each sensor, a record in each line."""
    folder.mkdir(parents=True, exist_ok=True)
    for sensor, stored in of.items():
        path = folder / f"{name}-{sensor}.jsonl"
        path.write_bytes(b"".join(value + b"\n" for _, _, value in stored))


def arguments(text: str) -> argparse.ArgumentParser:
    """Return the options that choose an input; `expected.py` takes the same."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--per-second", type=float, default=200, help="of all sensors together")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    return parser


def main() -> None:
    """Write the files of all sensors."""
    given = arguments("Write synthetic passings, a file for each sensor.").parse_args()
    write(given.out, "raw", records(given.seed, SENSORS, given.seconds, given.per_second))
    write(given.out, "closing", closing(SENSORS, given.seconds))


if __name__ == "__main__":
    main()
