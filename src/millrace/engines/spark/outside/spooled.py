"""A stream that is received into a spool, and one that a log keeps, as feeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from millrace.engines.spark.outside.feed import MOST_ROWS, Ends, Entry, Part, SourceFailed, now
from millrace.errors import OperationFailed
from millrace.ports import Log, Record, Span
from millrace.spool import SpoolReader

#: The file in a spool's folder that tells its receiver up to where all is committed.
READ = "read"


class Positioned:
    """What both have in common: partitions with positions. `begin` is where a first reader begins.

    See the port `Feed`.
    """

    def __init__(self, name: str, begin: Mapping[str, int]) -> None:
        self._name = name
        self._begin = dict(begin)
        self._frozen: Ends | None = None

    def spans(self) -> Mapping[int, Span]:
        """Return what each partition holds."""
        raise NotImplementedError

    def read(self, partition: int, start: int, until: int) -> Iterator[Record]:
        """Return the records between two positions."""
        raise NotImplementedError

    def begin(self) -> Ends:
        """Return where a first reader begins."""
        spans = self.spans()
        places = {str(part): max(span.first, self._begin.get(str(part), 0)) for part, span in
                  spans.items()}  # fmt: skip
        return {self._name: places}

    def latest(self, start: Ends) -> Ends:
        """Return up to where there is something to read, not too much at once."""
        ends = self._frozen or self._ends()
        before = start.get(self._name, {})
        most = {part: before.get(part, 0) + MOST_ROWS for part in ends[self._name]}
        return {self._name: {part: min(end, most[part]) for part, end in ends[self._name].items()}}

    def _ends(self) -> Ends:
        return {self._name: {str(part): span.end for part, span in self.spans().items()}}

    def freeze(self) -> None:
        """From now on, act as if nothing more came."""
        self._frozen = self._ends()

    def close(self) -> None:
        """Nobody asks any more."""

    def committed(self, ends: Ends) -> None:
        """All up to there is committed: nobody reads it again."""

    def parts(self, start: Ends, end: Ends) -> Sequence[Part]:
        """Return what lies between: one part for each partition, in its order."""
        before, at = start.get(self._name, {}), now()
        found = ((part, before.get(part, 0), until) for part, until in end[self._name].items())
        return [
            Part(int(part), first, {"until": until}, at)
            for part, first, until in found
            if until > first
        ]

    def records(self, part: Part) -> Iterator[Entry]:
        """Return the records of a part; raises where they are gone."""
        try:
            for record in self.read(part.number, part.first, part.about["until"]):
                time = part.at if record.time is None else record.time * 1000
                yield Entry(
                    record.position, record.value or b"", time, record.key, tuple(record.headers)
                )
        except OperationFailed as failure:
            if failure.transient:
                raise
            raise SourceFailed(f"{failure.message}: {failure.hint}") from failure


class Spooled(Positioned):
    """What a receiver received. How far its query is it is told by a file."""

    def __init__(self, name: str, folder: Path, begin: Mapping[str, int]) -> None:
        super().__init__(name, begin)
        self._folder = folder
        self._spool = SpoolReader(folder)

    def spans(self) -> Mapping[int, Span]:
        """Return what the spool holds."""
        return {0: self._spool.span()}

    def read(self, partition: int, start: int, until: int) -> Iterator[Record]:
        """Return records of the spool."""
        del partition
        return self._spool.read(start, until)

    def committed(self, ends: Ends) -> None:
        """Let the receiver know what it need not keep."""
        at = ends[self._name].get("0", 0)
        fresh = self._folder / f"{READ}.new"
        fresh.write_text(str(at))
        fresh.replace(self._folder / READ)


class Logged(Positioned):
    """What a broker's log keeps."""

    def __init__(self, name: str, log: Log, begin: Mapping[str, int]) -> None:
        super().__init__(name, begin)
        self._log = log

    def spans(self) -> Mapping[int, Span]:
        """Return what each partition of the stream holds."""
        return self._log.ends(self._name)

    def read(self, partition: int, start: int, until: int) -> Iterator[Record]:
        """Return records of a partition."""
        return self._log.read(self._name, {partition: start}, {partition: until})
