"""Sends the synthetic vehicles to a running pipeline, in the order of time over all sensors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby

import vehicles

from millrace.ports import Log, Record

#: What is sent at once, in seconds of the timeline. A slice and the largest delay together stay
#: below the smallest allowed lateness (5 s), so a sensor that is a slice ahead makes no other late.
SLICE = 0.5
LOCKSTEP_SLICE = 2.0
#: How often `settled` is asked, in seconds.
PAUSE = 0.2


def drive(
    log_of_sensor: Callable[[str], Log],
    seed: int,
    seconds: float,
    per_second: float,
    speed: float | None,
    *,
    settled: Callable[[], bool],
    limit: float,
    lockstep: bool = False,
    sensors: Sequence[str] = vehicles.SENSORS,
) -> int:
    """Send the timeline, wait until `settled`, then send the closing records; returns how many.

    `log_of_sensor` gives the log that holds a sensor's stream `raw-SENSOR`; each sensor is written
    by a thread of its own. `speed` 1.0 is real time, None as fast as possible. `settled` says
    whether all jobs have read all that was sent; TimeoutError after `limit` seconds of waiting.
    `lockstep` waits for it after each two seconds of the timeline: then nothing is late, however
    unevenly the jobs advance.
    """
    sent, begun = 0, time.monotonic()
    length = LOCKSTEP_SLICE if lockstep else SLICE
    with ThreadPoolExecutor(len(sensors)) as pool:

        def send(of: dict[str, list[Record]]) -> int:
            def write(sensor: str) -> int:
                return log_of_sensor(sensor).write(vehicles.stream(sensor), of[sensor])

            return sum(pool.map(write, of))

        for end, of in slices(seed, seconds, per_second, sensors, length):
            if speed is not None:  # what is measured in a slice can be sent when it is over
                time.sleep(max(0.0, begun + end / speed - time.monotonic()))
            sent += send(of)
            if lockstep:
                await_settled(settled, limit)
        await_settled(settled, limit)
        return sent + send(closing(sensors, seconds))


def slices(
    seed: int, seconds: float, per_second: float, sensors: Sequence[str], length: float
) -> Iterator[tuple[float, dict[str, list[Record]]]]:
    """Yield the timeline in slices: when each is over, and what each sensor has in it."""
    sent = vehicles.timeline(seed, seconds, per_second, sensors)
    for number, items in groupby(sent, key=lambda item: int(item[0] / length)):
        of: dict[str, list[Record]] = {}
        for _, sensor, key, value in items:
            of.setdefault(sensor, []).append(Record(value, key))
        yield (number + 1) * length, of


def closing(sensors: Sequence[str], seconds: float) -> dict[str, list[Record]]:
    """Return the records that close all windows, for each sensor."""
    made = vehicles.closing(sensors, seconds)
    return {
        sensor: [Record(value, key, partition=part) for part, key, value in stored]
        for sensor, stored in made.items()
    }


def await_settled(settled: Callable[[], bool], limit: float) -> None:
    """Return when the pipeline has read all; TimeoutError after `limit` seconds."""
    last = time.monotonic() + limit
    while not settled():
        if time.monotonic() > last:
            raise TimeoutError(f"the pipeline has not read all that was sent after {limit:g} s")
        time.sleep(PAUSE)
