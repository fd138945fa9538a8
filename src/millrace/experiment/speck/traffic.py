"""The road traffic of SpecK's figures 7 and 9: its jobs in two places, and its vehicles."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from millrace.ports import Record

PIPELINE: Final = "fog"
CLOUD: Final = "cloud"
EDGES: Final = ("north", "west", "south")
#: As many as the paper's data have.
VEHICLES: Final = 245_369
#: The share of records that can't be: sensors err.
WRONG: Final = 0.1
WINDOW_SECONDS: Final = 10
_DAY_ONE: Final = datetime(2021, 6, 14, tzinfo=UTC)
_PASSING: Final = {"vehicle": "long", "speed": "double", "at": "timestamp", "due": "long"}
_COUNT: Final = {"start": "timestamp", "end": "timestamp", "vehicles": "long", "due": "long"}


class Scenario(StrEnum):
    """Where jobs run."""

    FOG = "fog"
    CLOUD = "cloud"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True)
class Sensor:
    """What writes vehicles at an edge."""

    edge: str
    number: int

    @property
    def stream(self) -> str:
        """What it writes to."""
        return f"raw_{self.number}"


@dataclass(frozen=True, slots=True)
class Layout:
    """The edges with their sensors, and where jobs run."""

    scenario: Scenario
    edges: tuple[str, ...]
    sensors: tuple[Sensor, ...]

    @classmethod
    def of(cls, scenario: Scenario, edges: int, sensors: int) -> Layout:
        """Deal sensors to edges in turn."""
        names = EDGES[:edges]
        return cls(scenario, names, tuple(Sensor(names[n % edges], n) for n in range(sensors)))

    def place(self, edge: str) -> str:
        """Return where the streams and the jobs 1 and 2 of an edge are."""
        return CLOUD if self.scenario is Scenario.CLOUD else edge

    def local(self, edge: str) -> str:
        """Return where job 3 of an edge is."""
        return edge if self.scenario is Scenario.FOG else CLOUD

    @property
    def sites(self) -> tuple[str, ...]:
        """Return all sites in use."""
        return tuple(dict.fromkeys([*(self.place(edge) for edge in self.edges), CLOUD]))

    def document(self) -> dict[str, Any]:
        """Return the native document of the pipeline."""
        return {
            "pipeline": PIPELINE,
            "sites": {site: {"broker": {"kind": "kafka"}} for site in self.sites},
            "streams": self._streams(),
            "jobs": self._jobs(),
        }

    def _streams(self) -> dict[str, Any]:
        passing, count = {"partitions": 1, "schema": _PASSING}, {"partitions": 1, "schema": _COUNT}
        found: dict[str, Any] = {
            sensor.stream: {"site": self.place(sensor.edge), **passing} for sensor in self.sensors
        }
        for edge in self.edges:
            found[f"clean_{edge}"] = {"site": self.place(edge), **passing}
            found[f"local_{edge}"] = {"site": self.local(edge), **count}
        return {**found, "merged": {"site": CLOUD, **passing}, "total": {"site": CLOUD, **count}}

    def _jobs(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for sensor in self.sensors:
            found[f"clean_{sensor.number}"] = {
                "site": self.place(sensor.edge),
                "from": {"stream": sensor.stream, "as": "raw"},
                "to": f"clean_{sensor.edge}",
                "checkpoint": "60 s",
                "sql": "SELECT * FROM raw WHERE vehicle IS NOT NULL AND speed BETWEEN 0 AND 250",
            }
        for edge in self.edges:
            found[f"forward_{edge}"] = {
                "site": self.place(edge),
                "from": {"stream": f"clean_{edge}", "as": "clean"},
                "to": "merged",
                "checkpoint": "60 s",
                "sql": "SELECT * FROM clean",
            }
            found[f"local_{edge}"] = _counting(self.local(edge), f"clean_{edge}", f"local_{edge}")
        return {**found, "total": _counting(CLOUD, "merged", "total")}


def _counting(site: str, source: str, target: str) -> dict[str, Any]:
    """A job that tells with each vehicle how many there were in its window so far."""
    return {
        "site": site,
        "from": source,
        "to": target,
        "checkpoint": "60 s",
        "window": {"of": f"{WINDOW_SECONDS} s", "by": "at", "lateness": "1 min"},
        "emit": "updates",
        "aggregate": {"vehicles": "count(*)", "due": "max(due)"},
    }


def wrong(seed: int, number: int, seq: int) -> bool:
    """Whether a sensor errs with a record."""
    return random.Random(f"{seed}/{number}/{seq}").random() < WRONG  # noqa: S311 - no secret


def passings(seed: int, sensor: Sensor, day: int, rate: float) -> Iterator[tuple[float, Record]]:
    """Yield records without end, each with when it is due, in seconds from the first.

    A pure function of its arguments. Each run has a day of its own, so windows are its own, too.
    """
    begin, seq = _DAY_ONE + timedelta(days=day), 0
    while True:
        chance = random.Random(f"{seed}/{sensor.number}/{seq}")  # noqa: S311 - no secret
        erring = chance.random() < WRONG
        due = seq / rate
        at = begin + timedelta(seconds=due)
        document = {
            "vehicle": chance.randrange(VEHICLES),
            "speed": -1.0 if erring else round(chance.uniform(20, 130), 1),
            "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "due": round(due * 1000),
        }
        yield due, Record(json.dumps(document).encode(), str(document["vehicle"]).encode())
        seq += 1


def offered(seed: int, sensors: Iterable[Sensor], rate: float, seconds: float) -> int:
    """Return how many good records are due in some seconds."""
    return sum(
        not wrong(seed, sensor.number, seq)
        for sensor in sensors
        for seq in range(round(rate * seconds))
    )


@dataclass(frozen=True, slots=True)
class Told:
    """A result of a counting job: so many in a window, the newest due then, told at a time."""

    window: str
    vehicles: int
    #: In milliseconds: since the run began, and since the epoch.
    due: int
    at: int

    @classmethod
    def of(cls, record: Record) -> Told:
        """Read a record of a stream of counts."""
        document: Mapping[str, Any] = json.loads(record.value or b"{}")
        return cls(
            str(document["start"]),
            int(document["vehicles"]),
            int(document["due"]),
            record.time or 0,
        )


def counted(told: Sequence[Told], until: float) -> int:
    """Return how many vehicles were counted up to a time, in milliseconds since the epoch."""
    windows: dict[str, int] = {}
    for one in told:
        if one.at <= until:
            windows[one.window] = max(windows.get(one.window, 0), one.vehicles)
    return sum(windows.values())


def lags(told: Sequence[Told], began: float) -> list[float]:
    """Return for each result how old the newest vehicle in it was, in milliseconds."""
    return [one.at - began - one.due for one in told]
