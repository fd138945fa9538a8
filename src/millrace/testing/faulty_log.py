"""Fakes at the port of logs: one in memory, and one that loses, repeats and swaps records."""

from __future__ import annotations

import hashlib
import threading
import time as clocks
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from millrace.errors import OperationFailed
from millrace.ports import Log, Record, Span


class MemoryLog:
    """Streams in memory, by their numbers of partitions. Any number of threads may use it.

    A key has the partition that librdkafka gives it; records without one go round.
    """

    def __init__(
        self, streams: Mapping[str, int], clock: Callable[[], float] = clocks.time
    ) -> None:
        self._streams: dict[str, list[list[Record]]] = {
            name: [[] for _ in range(count)] for name, count in streams.items()
        }
        self._turns = dict.fromkeys(streams, 0)
        self._clock = clock
        self._changed = threading.Condition()

    def grow(self, stream: str, partitions: int) -> None:
        """Make a stream be there with so many partitions, or more."""
        with self._changed:
            there = self._streams.setdefault(stream, [])
            there += [[] for _ in range(partitions - len(there))]
            self._turns.setdefault(stream, 0)

    def forget(self, stream: str) -> None:
        """Remove a stream with its records."""
        with self._changed:
            self._streams.pop(stream, None)

    def write(self, stream: str, records: Iterable[Record]) -> int:
        """Append records, each to be read at once; see the port."""
        partitions = self._partitions(stream)
        count = 0
        for record in records:
            with self._changed:
                number = self._choose(stream, record, len(partitions))
                time = int(self._clock() * 1000) if record.time is None else record.time
                held = partitions[number]
                held.append(replace(record, partition=number, position=len(held), time=time))
                self._changed.notify_all()
            count += 1
        return count

    def _choose(self, stream: str, record: Record, count: int) -> int:
        if record.partition is not None:
            _refuse_unknown(stream, [record.partition], count)
            return record.partition
        if record.key:  # librdkafka takes an empty key for none
            return zlib.crc32(record.key) % count
        self._turns[stream] += 1
        return (self._turns[stream] - 1) % count

    def read(
        self,
        stream: str,
        start: Mapping[int, int],
        until: Mapping[int, int] | None = None,
        wait: float = 1.0,
    ) -> Iterator[Record]:
        """Yield records from some positions on; see the port."""
        partitions = self._partitions(stream)
        _refuse_unknown(stream, start, len(partitions))
        at = {part: max(0, position) for part, position in start.items()}
        while True:
            with self._changed:
                batch = self._news(partitions, at, until)
                if not batch and _reached(at, until):
                    return
                if not batch and self._changed.wait_for(
                    lambda: self._news(partitions, at, until), wait
                ):
                    continue
            if not batch and until is None:
                return
            if not batch:
                raise OperationFailed(
                    "no-answer", f"{stream} was not read to its end in {wait} s", transient=True
                )
            for record in batch:
                at[record.partition or 0] = record.position + 1
            yield from batch

    @staticmethod
    def _news(
        partitions: list[list[Record]], at: Mapping[int, int], until: Mapping[int, int] | None
    ) -> list[Record]:
        return [
            record
            for part, position in sorted(at.items())
            for record in partitions[part][position : None if until is None else until.get(part, 0)]
        ]

    def ends(self, stream: str) -> Mapping[int, Span]:
        """Return what each partition holds; see the port."""
        partitions = self._partitions(stream)
        with self._changed:
            return {part: Span(0, len(held)) for part, held in enumerate(partitions)}

    def since(self, stream: str, time: int) -> Mapping[int, int]:
        """Return the first positions of a time; see the port."""
        partitions = self._partitions(stream)
        with self._changed:
            return {
                part: next((r.position for r in held if (r.time or 0) >= time), len(held))
                for part, held in enumerate(partitions)
            }

    def last(self, stream: str, time: int, most: int) -> Sequence[Record] | None:
        """Return what is there from the positions of a time on; see the port."""
        ends = {part: span.end for part, span in self.ends(stream).items()}
        found = list(self.read(stream, self.since(stream, time), ends))
        return found if len(found) <= most else None

    def _partitions(self, stream: str) -> list[list[Record]]:
        if stream not in self._streams:
            raise OperationFailed("no-stream", f"there is no stream {stream}", "create it first")
        return self._streams[stream]


def _refuse_unknown(stream: str, wanted: Iterable[int], count: int) -> None:
    for part in wanted:
        if not 0 <= part < count:
            raise OperationFailed("no-partition", f"{stream} has no partition {part}")


def _reached(at: Mapping[int, int], until: Mapping[int, int] | None) -> bool:
    return until is not None and all(place >= until.get(part, 0) for part, place in at.items())


class FaultyLog:
    """Another log whose readers are told lies: for each share between 0 and 1 of the records.

    `lose` leaves records out, `repeat` gives them twice, `swap` gives them after the one that
    follows. What becomes of a record depends on the seed and its place only, so a second read
    tells the same. `lost`, `repeated` and `swapped` count what was done, over all reads.
    """

    def __init__(
        self, inner: Log, seed: int, lose: float = 0.0, repeat: float = 0.0, swap: float = 0.0
    ) -> None:
        self._inner = inner
        self._seed = seed
        self._shares = {"lose": lose, "repeat": repeat, "swap": swap}
        self.lost = self.repeated = self.swapped = 0

    def write(self, stream: str, records: Iterable[Record]) -> int:
        """Append records, truly; see the port."""
        return self._inner.write(stream, records)

    def read(
        self,
        stream: str,
        start: Mapping[int, int],
        until: Mapping[int, int] | None = None,
        wait: float = 1.0,
    ) -> Iterator[Record]:
        """Yield records from some positions on, with faults; see the port."""
        held: Record | None = None
        for record in self._inner.read(stream, start, until, wait):
            if self._chosen("lose", stream, record):
                self.lost += 1
                continue
            if held is None and self._chosen("swap", stream, record):
                held = record
                continue
            yield from self._told(stream, record)
            if held is not None:
                self.swapped += 1
                yield from self._told(stream, held)
                held = None
        if held is not None:
            yield from self._told(stream, held)

    def _told(self, stream: str, record: Record) -> Iterator[Record]:
        yield record
        if self._chosen("repeat", stream, record):
            self.repeated += 1
            yield record

    def _chosen(self, fault: str, stream: str, record: Record) -> bool:
        share = self._shares[fault]
        place = f"{self._seed}/{fault}/{stream}/{record.partition}/{record.position}"
        drawn = int.from_bytes(hashlib.blake2b(place.encode(), digest_size=6).digest(), "big")
        return drawn < share * 2**48

    def ends(self, stream: str) -> Mapping[int, Span]:
        """Return what each partition holds, truly; see the port."""
        return self._inner.ends(stream)

    def since(self, stream: str, time: int) -> Mapping[int, int]:
        """Return the first positions of a time, truly; see the port."""
        return self._inner.since(stream, time)

    def last(self, stream: str, time: int, most: int) -> Sequence[Record] | None:
        """Return what is there from the positions of a time on, truly; see the port."""
        return self._inner.last(stream, time, most)
