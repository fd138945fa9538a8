"""The log of a shelf: see the port `Log`. Any number of processes may read and write."""

from __future__ import annotations

import itertools
import json
import time as clocks
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from millrace.errors import OperationFailed
from millrace.ports import Record, Span

from millrace_shelf.files import Partition, locked, sync_folder, write_whole

#: Records that are written, or read, at once.
_MOST: Final = 1000
_LOOK_SECONDS: Final = 0.01
#: What `last` gives at most, in bytes of values.
_MOST_BYTES: Final = 64_000_000
_SUFFIX: Final = ".stream"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a shelf knows of a stream."""

    partitions: int
    max_record: int | None = None


class ShelfLog:
    """The streams in a folder, by their addresses."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._turns = itertools.count()

    def write(self, stream: str, records: Iterable[Record]) -> int:
        """Append records; see the port. They are on the disk when this returns."""
        source, count = iter(records), 0
        while chunk := list(itertools.islice(source, _MOST)):
            with self._held(stream, shared=False) as shape:
                parts: dict[int, list[Record]] = {}
                for record in chunk:
                    parts.setdefault(self._choose(stream, record, shape), []).append(_timed(record))
                for number, some in parts.items():
                    self._partition(stream, number).append(some)
            count += len(chunk)
        if count == 0:
            self.shape(stream)
        return count

    def _choose(self, stream: str, record: Record, shape: Shape) -> int:
        """The partition of a record: its own, that of its key, or the next one."""
        if shape.max_record is not None and len(record.value or b"") > shape.max_record:
            raise OperationFailed(
                "too-large",
                f"a record of {len(record.value or b'')} bytes is too large for {stream}",
                f"write streams.{stream}.max_record: {len(record.value or b'')} B",
            )
        if record.partition is not None:
            _refuse_unknown(stream, [record.partition], shape)
            return record.partition
        turn = zlib.crc32(record.key) if record.key else next(self._turns)
        return turn % shape.partitions

    def read(
        self,
        stream: str,
        start: Mapping[int, int],
        until: Mapping[int, int] | None = None,
        wait: float = 1.0,
    ) -> Iterator[Record]:
        """Yield records from some positions on; see the port."""
        _refuse_unknown(stream, start, self.shape(stream))
        at, last = dict(start), clocks.monotonic()
        while until is None or any(place < until.get(part, 0) for part, place in at.items()):
            some = self._some(stream, at, until)
            for record in some:
                at[record.partition or 0] = record.position + 1
            yield from some
            if some:
                last = clocks.monotonic()
            elif clocks.monotonic() - last > wait:
                if until is None:
                    return
                raise OperationFailed(
                    "no-answer", f"{stream} was not read to its end in {wait} s", transient=True
                )
            else:
                clocks.sleep(_LOOK_SECONDS)

    def _some(
        self, stream: str, at: Mapping[int, int], until: Mapping[int, int] | None
    ) -> list[Record]:
        """What is there now from some positions on, up to a bound."""
        found: list[Record] = []
        with self._held(stream, shared=True):
            for number, place in sorted(at.items()):
                part = self._partition(stream, number)
                end = part.count() if until is None else min(until.get(number, 0), part.count())
                found += part.take(place, min(end, place + _MOST))
        return found

    def ends(self, stream: str) -> Mapping[int, Span]:
        """Return what each partition holds; see the port."""
        with self._held(stream, shared=True) as shape:
            counts = [self._partition(stream, n).count() for n in range(shape.partitions)]
        return {number: Span(0, count) for number, count in enumerate(counts)}

    def since(self, stream: str, time: int) -> Mapping[int, int]:
        """Return the first positions of a time; see the port."""
        with self._held(stream, shared=True) as shape:
            return {n: self._partition(stream, n).since(time) for n in range(shape.partitions)}

    def last(self, stream: str, time: int, most: int) -> Sequence[Record] | None:
        """Return what is there from the positions of a time on; see the port."""
        starts, spans = self.since(stream, time), self.ends(stream)
        ends = {number: span.end for number, span in spans.items()}
        if sum(ends[number] - place for number, place in starts.items()) > most:
            return None
        found = list(self.read(stream, starts, ends))
        size = sum(len(record.value or b"") for record in found)
        return found if size <= _MOST_BYTES else None

    def shape(self, stream: str) -> Shape:
        """Return what is known of a stream; raises where it is not there."""
        with self._held(stream, shared=True) as shape:
            return shape

    def shapes(self) -> dict[str, Shape]:
        """Return the streams that are there."""
        names = [unquote(it.name.removesuffix(_SUFFIX)) for it in self.root.glob(f"*{_SUFFIX}")]
        known = {name: self._known(name) for name in names}
        return {name: shape for name, shape in known.items() if shape is not None}

    def make(self, stream: str, shape: Shape) -> None:
        """Make a stream be there; partitions that it has already keep what they hold."""
        folder = self._folder(stream)
        with locked(self._lock(stream)):
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(shape.partitions):
                Partition(folder, number).make()
            sync_folder(folder)
            write_whole(folder / "stream.json", json.dumps(asdict(shape)))
            sync_folder(self.root)

    def remove(self, stream: str) -> None:
        """Remove a stream, first of all the file that says that it is there."""
        folder = self._folder(stream)
        with locked(self._lock(stream)):
            if folder.is_dir():
                (folder / "stream.json").unlink(missing_ok=True)
                for file in folder.iterdir():
                    file.unlink()
                folder.rmdir()
                sync_folder(self.root)

    @contextmanager
    def _held(self, stream: str, *, shared: bool) -> Iterator[Shape]:
        """Hold a stream's lock; so a reader sees only what is on the disk."""
        if not self._folder(stream).is_dir():
            raise _no_stream(stream)
        with locked(self._lock(stream), shared=shared):
            shape = self._known(stream)
            if shape is None:
                raise _no_stream(stream)
            yield shape

    def _known(self, stream: str) -> Shape | None:
        try:
            return Shape(**json.loads((self._folder(stream) / "stream.json").read_text("utf-8")))
        except FileNotFoundError:
            return None

    def _partition(self, stream: str, number: int) -> Partition:
        return Partition(self._folder(stream), number)

    def _folder(self, stream: str) -> Path:
        return self.root / f"{quote(stream, safe='')}{_SUFFIX}"

    def _lock(self, stream: str) -> Path:
        """Beside the folder, and never removed: who waits for it must not hold another one."""
        return self.root / "locks" / f"{quote(stream, safe='')}.lock"


def _timed(record: Record) -> Record:
    return record if record.time is not None else replace(record, time=int(clocks.time() * 1000))


def _refuse_unknown(stream: str, wanted: Iterable[int], shape: Shape) -> None:
    for number in wanted:
        if not 0 <= number < shape.partitions:
            raise OperationFailed(
                "no-partition",
                f"{stream} has no partition {number}: it has {shape.partitions}",
                "was it made again with fewer? ask for its ends",
            )


def _no_stream(stream: str) -> OperationFailed:
    return OperationFailed(
        "no-stream",
        f"there is no stream {stream} on this shelf",
        "is its name right, and was the pipeline applied?",
    )
