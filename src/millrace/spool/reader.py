"""The reading side of a spool: any number, in any process, while it is written."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import OperationFailed
from millrace.ports import Record, Span
from millrace.spool.failures import damaged, gone, mark_damaged, told
from millrace.spool.frames import NEVER, Frame, headers_of
from millrace.spool.index import nearest
from millrace.spool.mark import NAME, look
from millrace.spool.segments import HEADER, bases, blocks, latest_before, path_of

_NOTHING = Span(0, 0)


@dataclass(frozen=True, slots=True)
class SpoolReader:
    """Reads a spool by position; sees only what is durable, and needs no lock.

    One that is not there yet is empty.
    """

    folder: Path

    def span(self) -> Span:
        """Return what is durable and kept now."""
        with told(self.folder):
            try:
                found = look(self.folder)
            except FileNotFoundError:
                return _NOTHING
        if found is None:
            raise mark_damaged(self.folder / NAME)
        return found

    def read(self, start: int, until: int | None = None) -> Iterator[Record]:
        """Give the records from a position up to `until`, or to the end at the time of the call.

        Raises `spool-gone` where the first is no longer kept, `spool-damaged` where one is not as
        it was written; both say where to go on. There is nothing at the end or behind it.
        """
        return (
            Record(value, key, headers_of(headers) if headers else (), 0, position, time)
            for frames in self._wanted(start, until)
            for position, time, key, headers, value in frames
        )

    def values(
        self, start: int, until: int | None = None
    ) -> Iterator[tuple[int, bytes | None, int | None]]:
        """Give position, value and time of what `read` gives, in less time."""
        return (
            (position, value, time)
            for frames in self._wanted(start, until)
            for position, time, _, _, value in frames
        )

    def since(self, time: int) -> int:
        """Return the first position whose time (ms) is that or later; the end where none is."""
        while True:
            span = self.span()
            try:
                for frames in self._frames(max(self._near(time, span), span.first), span.end):
                    for frame in frames:
                        if frame[1] is not None and frame[1] >= time:
                            return frame[0]
            except OperationFailed as failure:
                if failure.code != "spool-gone":
                    raise
            else:
                return span.end

    def _near(self, time: int, span: Span) -> int:
        """A position before which no record of a time or later is kept, near the first such."""
        with told(self.folder), suppress(FileNotFoundError):
            places = [base for base in bases(self.folder) if base < span.end]
            return places[bisect_left(places[1:], time, key=self._latest)] if places else 0
        return 0

    def _latest(self, base: int) -> int:
        """The latest time before a segment; of one that was trimmed meanwhile, none is kept."""
        with suppress(FileNotFoundError):
            descriptor = os.open(path_of(self.folder, base), os.O_RDONLY)
            try:
                found = latest_before(descriptor, base)
            finally:
                os.close(descriptor)
            if found is None:
                raise self._damage(base, base)
            return found
        return NEVER

    def _wanted(self, start: int, until: int | None) -> Iterator[list[Frame]]:
        """Decide at the time of the call what is read, and whether it can be."""
        span = self.span()
        until = span.end if until is None else min(until, span.end)
        if start < until and start < span.first:
            raise gone(self.folder, start, span.first)
        return self._frames(start, until)

    def _frames(self, position: int, until: int) -> Iterator[list[Frame]]:
        """Give the frames of positions that are durable, in lists."""
        if position >= until:
            return
        with told(self.folder):
            base = self._base(position)
            while True:
                for frames in self._of_segment(base, position, until):
                    yield frames
                    position = frames[-1][0] + 1
                if position >= until:
                    return
                if position == base:  # it holds nothing, and was followed by nothing
                    raise self._damage(base, position)
                base = position

    def _base(self, position: int) -> int:
        """The segment in which a position stands."""
        places = bases(self.folder)
        number = bisect_right(places, position)
        if number == 0:
            raise self._damage(position, position)
        return places[number - 1]

    def _of_segment(self, base: int, start: int, until: int) -> Iterator[list[Frame]]:
        """Give the frames of one segment; raises unless they go up to its end, or to `until`."""
        try:
            descriptor = os.open(path_of(self.folder, base), os.O_RDONLY)
        except FileNotFoundError:
            raise self._damage(base, start) from None
        try:
            if latest_before(descriptor, base) is None:
                raise self._damage(base, start)
            position, at = self._way(descriptor, base, start)
            for frames, behind in blocks(descriptor, at, position, until):
                at, position = behind, frames[-1][0] + 1
                if position > start:
                    yield frames[max(start - frames[0][0], 0) :]
            if position < until and (position < start or at != os.fstat(descriptor).st_size):
                raise self._damage(base, position)
        finally:
            os.close(descriptor)

    def _way(self, descriptor: int, base: int, start: int) -> tuple[int, int]:
        """Where to begin: at what the index says, if that is true, or at the first record."""
        hint = nearest(self.folder, base, start)
        if hint is not None and HEADER < hint[1] < os.fstat(descriptor).st_size:
            position, at = hint
            if next(blocks(descriptor, at, position, position + 1), None) is not None:
                return hint
        return base, HEADER

    def _damage(self, base: int, position: int) -> OperationFailed:
        """Say why a position is not there: it was trimmed since, or its file is damaged."""
        span = self.span()
        if position < span.first:
            return gone(self.folder, position, span.first)
        places = [place for place in bases(self.folder) if place > position]
        later = [place for place in places if place < span.end]
        onwards = min(later, default=span.end)
        return damaged(path_of(self.folder, base), position, onwards, last=not later)
