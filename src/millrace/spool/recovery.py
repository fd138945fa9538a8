"""What a writer finds when it begins: where it goes on, and what a crash left behind.

A segment is followed by another only when it is durable, so only the last one can have a torn
tail, and that is cut off. Where what was durable is missing there, it is not a torn tail but
damage: the file stays as it is for readers to be told, and a new segment begins behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from millrace.ports import Span
from millrace.spool import index
from millrace.spool.frames import NEVER
from millrace.spool.index import Index
from millrace.spool.mark import MarkFile, look
from millrace.spool.segments import UNKNOWN, Found, Segment, bases, path_of, scan, sync_folder


@dataclass(slots=True)
class Opened:
    """A spool that can be written: all of `span` is durable, and readers see it."""

    span: Span
    #: The latest time of its records.
    latest: int
    segment: Segment
    index: Index
    mark: MarkFile

    def close(self) -> None:
        """Close its files."""
        self.segment.close()
        self.index.close()
        self.mark.close()


def recovered(folder: Path) -> Opened:
    """Open the spool of a folder, or make it."""
    known = _known(folder)
    places = bases(folder)
    least = _least(known, places)
    found = scan(folder, places[-1]) if places else None
    if found is not None and found.end >= least:
        segment = Segment.open(folder, places[-1], found.size)
        end, latest, ways = found.end, found.latest, found.ways
    else:
        end, latest, ways = least, _latest(folder, places, found, least), []
        segment = _begun(folder, end, latest)
    try:
        sync_folder(folder)
        first = max(known.first if known else 0, min(places, default=end))
        span = Span(min(first, end), end)
        drop(folder, span.first)
        mark = _shown(folder, span)
    except BaseException:
        segment.close()
        raise
    return Opened(span, latest, segment, Index(folder, segment.base, ways), mark)


def _known(folder: Path) -> Span | None:
    with suppress(FileNotFoundError):
        return look(folder)
    return None


def _least(known: Span | None, places: Sequence[int]) -> int:
    """Positions below this one were given: readers saw them, or a segment begins behind them."""
    return max(known.end if known else 0, *places[-1:], 0)


def _latest(folder: Path, places: Sequence[int], found: Found | None, least: int) -> int:
    """The latest time before a segment that begins because the last one can't go on."""
    if least == 0:
        return NEVER
    if found is None and len(places) > 1 and places[-1] == least:  # it was just being made
        before = scan(folder, places[-2])
        if before is not None and before.end == least:
            return before.latest
    return UNKNOWN


def _begun(folder: Path, base: int, latest: int) -> Segment:
    segment = Segment.make(folder, base, latest)
    try:
        segment.sync()
    except BaseException:
        segment.discard()
        raise
    return segment


def _shown(folder: Path, span: Span) -> MarkFile:
    """Let readers see a span; where there is no whole mark it is made, and durable."""
    mark = MarkFile.open(folder)
    if mark is None:
        mark = MarkFile.make(folder, span)
        sync_folder(folder)
    else:
        mark.put(span)
    return mark


def drop(folder: Path, first: int) -> None:
    """Remove the segments below a position at which one begins, the oldest first."""
    for base in bases(folder):
        if base < first:
            path_of(folder, base).unlink(missing_ok=True)
            index.path_of(folder, base).unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Make the folder of a spool, durably."""
    missing = [place for place in folder.parents if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for place in (folder, *missing):
        sync_folder(place.parent)
