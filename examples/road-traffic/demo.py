"""Drives the running pipeline with synthetic vehicles and compares what it finds.

Start `millrace run pipeline.yaml --profile laptop` first (or `make demo`, which does all of it).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import vehicles
from drive import drive
from expected import EDGES, Expected, Row, cleaned, differences, expected, read
from plot import draw

from millrace.agent.brokers import log_of
from millrace.agent.progress import progress_at
from millrace.errors import OperationFailed
from millrace.machine import Folders
from millrace.model.pipeline import Pipeline
from millrace.ports import Log, Record, Span
from millrace.spec import load

HERE = Path(__file__).parent
#: How long the pipeline may take to come up or to settle, in seconds.
LIMIT = 180.0


class Traffic:
    """The running pipeline, as its sensors and its readers see it."""

    def __init__(self, home: Path | None) -> None:
        self.pipeline: Pipeline = load(HERE / "pipeline.yaml", profile="laptop").required()
        self._folders = Folders.of(home)
        #: How many records each edge's cleaning must let pass, of what was sent so far.
        self.good: dict[str, int] = dict.fromkeys(EDGES, 0)

    def log(self, stream: str) -> Log:
        """The log that holds a stream."""
        return log_of(self.pipeline, self.pipeline.streams[stream], self._folders)

    def sensor(self, sensor: str) -> Log:
        """The log of a sensor's stream; it counts what passes."""
        return _Counting(self.log(vehicles.stream(sensor)), self, edge_of(sensor))

    def up(self) -> bool:
        """Whether the streams are there."""
        try:
            return all(self.log(name).ends(name) for name in self.pipeline.streams)
        except OperationFailed:
            return False

    def settled(self) -> bool:
        """Whether all that was sent has been cleaned and forwarded, and windows have read it."""
        for edge, count in self.good.items():
            if _count(self.log(f"clean-{edge}").ends(f"clean-{edge}")) < count:
                return False
        if _count(self.log("merged").ends("merged")) < sum(self.good.values()):
            return False
        progress = progress_at(self._folders, self.pipeline.name)
        for name in (*(f"local-{edge}" for edge in EDGES), "global"):
            for stream in self.pipeline.jobs[name].reads:
                at = progress[name].positions.get(stream, {}) if name in progress else {}
                ends = self.log(stream).ends(stream)
                if any(at.get(part, 0) < span.end for part, span in ends.items()):
                    return False
        return True

    def results(self, stream: str) -> list[Row]:
        """All records of a stream of results."""
        return rows(self.log(stream), stream)


class _Counting:
    """A log that counts the records which cleaning must let pass."""

    def __init__(self, inner: Log, traffic: Traffic, edge: str) -> None:
        self._inner = inner
        self._traffic = traffic
        self._edge = edge

    def write(self, stream: str, records: Iterable[Record]) -> int:
        sent = list(records)
        passings = (read(record.value or b"") for record in sent)
        self._traffic.good[self._edge] += sum(1 for p in passings if p is not None and cleaned(p))
        return self._inner.write(stream, sent)

    def read(
        self,
        stream: str,
        start: Mapping[int, int],
        until: Mapping[int, int] | None = None,
        wait: float = 1.0,
    ) -> Iterator[Record]:
        return self._inner.read(stream, start, until, wait)

    def ends(self, stream: str) -> Mapping[int, Span]:
        return self._inner.ends(stream)

    def since(self, stream: str, time: int) -> Mapping[int, int]:
        return self._inner.since(stream, time)

    def last(self, stream: str, time: int, most: int) -> Sequence[Record] | None:
        return self._inner.last(stream, time, most)


def rows(log: Log, stream: str) -> list[Row]:
    """All records of a stream of results."""
    ends = log.ends(stream)
    start = {part: span.first for part, span in ends.items()}
    until = {part: span.end for part, span in ends.items()}
    return [json.loads(record.value or b"") for record in log.read(stream, start, until)]


def edge_of(sensor: str) -> str:
    """The edge that a sensor stands at."""
    return next(edge for edge, sensors in EDGES.items() if sensor in sensors)


def _count(ends: Mapping[int, Span]) -> int:
    return sum(span.end for span in ends.values())


def await_(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition; TimeoutError after the limit."""
    until = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"{what} after {LIMIT:.0f} s")
        time.sleep(0.5)


def closed(traffic: Traffic, wanted: Expected) -> bool:
    """Whether as many windows came out as are expected."""
    locals_ = (len(traffic.results(f"local-{edge}")) >= len(wanted.local[edge]) for edge in EDGES)
    return all(locals_) and len(traffic.results("global")) >= len(wanted.total)


def compared(traffic: Traffic, wanted: Expected) -> list[str]:
    """What differs between the pipeline's results and the expected ones."""
    problems = []
    for edge in EDGES:
        found = differences(traffic.results(f"local-{edge}"), wanted.local[edge])
        problems += [f"local-{edge}: {text}" for text in found]
    total = differences(traffic.results("global"), wanted.total)
    return problems + [f"global: {text}" for text in total]


def main() -> None:
    """Drive, compare, draw; the exit code tells whether all was as expected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--per-second", type=float, default=300)
    parser.add_argument("--out", type=Path, default=Path("road-traffic.png"))
    given = parser.parse_args()
    traffic = Traffic(given.home)
    await_(traffic.up, "the pipeline does not run")
    print(f"driving {given.seconds:.0f} s of traffic past {len(vehicles.SENSORS)} sensors")
    sent = drive(
        traffic.sensor, given.seed, given.seconds, given.per_second, None,
        settled=traffic.settled, limit=LIMIT, lockstep=True,
    )  # fmt: skip
    made = vehicles.records(given.seed, vehicles.SENSORS, given.seconds, given.per_second)
    wanted = expected(made)
    await_(lambda: closed(traffic, wanted), "windows are still open")
    problems = compared(traffic, wanted)
    rejected = _count(traffic.log("rejected").ends("rejected"))
    used, filtered = sum(wanted.used.values()), sum(wanted.filtered.values())
    malformed = sum(wanted.malformed.values())
    print(f"sent {sent}: {used} used, {filtered} filtered, {malformed} malformed")
    print(f"dead letters: {rejected}")
    for row in traffic.results("global"):
        print(f"  {row['start']}  {row['vehicles']} vehicles, {row['speed']:.1f} km/h on average")
    draw(
        {edge: traffic.results(f"local-{edge}") for edge in EDGES},
        traffic.results("global"),
        given.out,
    )
    print(f"wrote {given.out}")
    print("all windows are as a computation in plain Python has them" if not problems else "")
    raise SystemExit("\n".join(problems[:10]) if problems else 0)


if __name__ == "__main__":
    main()
