"""Drives the road traffic: sensors write at a rate, and what was counted is read."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from millrace.brokers.kafka import KafkaLog
from millrace.errors import OperationFailed
from millrace.experiment.declaration import number
from millrace.experiment.matrix import Run
from millrace.experiment.port import Around
from millrace.experiment.sites import LocalSites
from millrace.experiment.speck.traffic import (
    CLOUD,
    PIPELINE,
    Layout,
    Sensor,
    Told,
    counted,
    lags,
    offered,
    passings,
)
from millrace.model.pipeline import Pipeline
from millrace.ports import Log, Record

#: Results are awaited for so long after the last one.
SETTLE_SECONDS: Final = 3.0
LAST_SECONDS: Final = 120.0


@dataclass(slots=True)
class Traffic:
    """The runs on one set of sites."""

    local: LocalSites
    layout: Layout
    file: Pipeline
    #: Each run has a day of its own in the time of the records.
    day: int = 0

    def measured(self, run: Run) -> Mapping[str, float]:
        """Drive for some seconds at a rate, and count what was processed then."""
        self.day += 1
        length = number(run.cell, "seconds", 1)
        before = {name: self._end(name) for name in self._counts()}
        carried = self._carried()
        drivers = self._drivers(run, length)
        began = time.time()
        for driver in drivers:
            driver.begin(began)
        self.local.around.pause(length)
        for driver in drivers:
            driver.wait()
        sent = self._carried() - carried
        told = {name: self._settled(name, start) for name, start in before.items()}
        return {**self._figures(run, told, began), "link": sent / 1000}

    def _figures(self, run: Run, told: Mapping[str, list[Told]], began: float) -> dict[str, float]:
        rate, length = number(run.cell, "rate", 1), number(run.cell, "seconds", 1)
        locals_ = [told[f"local_{edge}"] for edge in self.layout.edges]
        until, start = (began + length) * 1000, began * 1000
        return {
            "job3": sum(counted(one, until) for one in locals_),
            "job4": counted(told["total"], until),
            "offered": sum(
                offered(run.seed, [sensor], self._share(sensor.edge, rate), length)
                for sensor in self.layout.sensors
            ),
            "lag3": statistics.median([lag for one in locals_ for lag in lags(one, start)]),
            "lag4": statistics.median(lags(told["total"], start)),
        }

    def _share(self, edge: str, rate: float) -> float:
        """The part of an edge's rate that each of its sensors has."""
        return rate / sum(sensor.edge == edge for sensor in self.layout.sensors)

    def _drivers(self, run: Run, length: float) -> list[_Driver]:
        window, rate = int(number(run.cell, "window")), number(run.cell, "rate", 1)
        found = []
        for sensor in self.layout.sensors:
            records = passings(run.seed, sensor, self.day, self._share(sensor.edge, rate))
            log = self._log(sensor, window)
            found.append(_Driver(log, sensor, records, length, self.local.around))
        return found

    def _log(self, sensor: Sensor, window: int) -> Log:
        """What a sensor writes with: at most so many records are unacknowledged, 0 is no bound.

        Clients of MQTT have such a bound; 20 is usual, at Mosquitto's and at Paho's.
        """
        site = self.layout.place(sensor.edge)
        direct = self.local.address(PIPELINE, site)
        address = self.local.doors.address(sensor.edge, site, direct)
        bound = {"queue.buffering.max.messages": str(window)} if window else {}
        return KafkaLog({"bootstrap.servers": address, **bound})

    def _counts(self) -> list[str]:
        return [*(f"local_{edge}" for edge in self.layout.edges), "total"]

    def _end(self, stream: str) -> dict[int, int]:
        spans = self.local.log(self.file, stream).ends(stream)
        return {part: span.end for part, span in spans.items()}

    def _settled(self, stream: str, start: Mapping[int, int]) -> list[Told]:
        """All results of a run: when none came for a while."""
        seen, since = dict(start), time.monotonic()

        def quiet() -> bool:
            nonlocal seen, since
            now = self._end(stream)
            if now != seen:
                seen, since = now, time.monotonic()
            return now != start and time.monotonic() - since > SETTLE_SECONDS

        self.local.around.until(quiet, LAST_SECONDS, f"{stream} gets no end of results", 0.3)
        log = self.local.log(self.file, stream)
        return [Told.of(record) for record in log.read(stream, start, seen)]

    def _carried(self) -> int:
        """How many bytes went to the cloud over the links of the edges so far."""
        doors = self.local.doors
        doors.of(CLOUD)  # a link is open when its first door is
        return sum(
            doors.carrier.carried(link.name)[1 - link.sites.index(CLOUD)]
            for link in doors.links
            if CLOUD in link.sites
        )


@dataclass(slots=True)
class _Driver:
    """Writes the records of a sensor when they are due, or as soon after as its bound lets it."""

    log: Log
    sensor: Sensor
    records: Iterator[tuple[float, Record]]
    length: float
    around: Around
    _error: list[OperationFailed] = field(default_factory=list)
    _thread: threading.Thread | None = None

    def begin(self, at: float) -> None:
        """Begin to write."""
        name = f"sensor {self.sensor.number}"
        self._thread = threading.Thread(target=self._write, args=(at,), name=name, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until all that was written is acknowledged; raises where it could not be."""
        if self._thread is not None:
            self._thread.join(LAST_SECONDS)
            if self._thread.is_alive():
                message = f"sensor {self.sensor.number} is not rid of its records"
                raise OperationFailed("too-slow", f"{message}, after {LAST_SECONDS:.0f} s")
        if self._error:
            raise self._error[0]

    def _write(self, at: float) -> None:
        try:
            self.log.write(self.sensor.stream, self._paced(at))
        except OperationFailed as failure:
            self._error.append(failure)

    def _paced(self, at: float) -> Iterator[Record]:
        """Records when they are due; none after the end, though some be late."""
        for due, record in self.records:
            if due >= self.length:
                return
            if (early := at + due - time.time()) > 0 and self.around.stop.wait(early):
                return
            if time.time() >= at + self.length:
                return
            yield record
