"""The writing side of a spool."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from millrace.machine.failpoint import reach
from millrace.ports import Record, Span
from millrace.spool.failures import held, told
from millrace.spool.frames import NEVER, packed
from millrace.spool.index import Index
from millrace.spool.recovery import drop, make_folder, recovered
from millrace.spool.segments import HEADER, Segment, bases, sync_folder

#: A segment that would become larger is followed by another; a commit is never split.
SEGMENT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one call appended."""

    data: bytes
    count: int
    latest: int


class SpoolWriter:
    """Appends records to a spool; one process may at a time.

    Threads may share it: one may append while another commits.
    """

    def __init__(self, folder: Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Make the spool or recover it; what a crash left half written is cut off.

        Raises `spool-held` where another process writes.
        """
        self._folder = Path(folder)
        self._segment_bytes = segment_bytes
        self._turn = threading.Lock()
        self._room = threading.Lock()
        self._pending: list[_Batch] = []
        with told(self._folder):
            make_folder(self._folder)
            self._lock = _locked(self._folder)
            try:
                self._open = recovered(self._folder)
            except BaseException:
                os.close(self._lock)
                raise
        self._shown = self._open.span
        self._next = self._open.span.end
        self._closed = False

    @property
    def end(self) -> int:
        """The position behind the last record that is durable."""
        return self._open.span.end

    def append(self, records: Iterable[Record]) -> int:
        """Take records and return the position of the first; all of them or, raising, none.

        They are in memory, not durable and not seen by readers, until the next commit.
        """
        with self._room:
            pieces: list[bytes] = []
            start = position = self._next
            latest = NEVER
            for record in records:
                pieces += packed(record, position)
                if record.time is not None and record.time > latest:
                    latest = record.time
                position += 1
            if pieces:
                self._pending.append(_Batch(b"".join(pieces), position - start, latest))
                self._next = position
            return start

    def commit(self) -> int:
        """Make all that was appended durable, then show it to readers; returns the new end.

        After raising readers see what they saw before, and all that was appended is still held:
        commit again, and do not append it again.
        """
        with self._turn, told(self._folder):
            with self._room:
                batches = tuple(self._pending)
            if batches:
                self._keep(batches)
            self._show()
            return self._open.span.end

    def _keep(self, batches: Sequence[_Batch]) -> None:
        """Write what was appended, and return when it is durable."""
        data = b"".join(batch.data for batch in batches)
        reach("spool.write")
        segment = self._segment_for(len(data))
        try:
            segment.write(data)
            reach("spool.sync")
            segment.sync()
            if segment is not self._open.segment:
                sync_folder(self._folder)
        except BaseException:
            self._take_back(segment)
            raise
        reach("spool.synced")
        if segment is not self._open.segment:
            self._go_on_with(segment)
        span = self._open.span
        self._open.index.add(span.end, segment.size)
        segment.size += len(data)
        self._open.span = Span(span.first, span.end + sum(batch.count for batch in batches))
        self._open.latest = max(self._open.latest, *(batch.latest for batch in batches))
        with self._room:
            del self._pending[: len(batches)]

    def _segment_for(self, size: int) -> Segment:
        """The segment that takes so many bytes: the last one, or a new one."""
        last = self._open.segment
        last.cut()  # a commit that failed may have left something
        if last.size == HEADER or last.size + size <= self._segment_bytes:
            return last
        return Segment.make(self._folder, self._open.span.end, self._open.latest)

    def _take_back(self, segment: Segment) -> None:
        """Give room back after a failure; pages that a sync failed for are written anew later."""
        with suppress(OSError):
            if segment is self._open.segment:
                segment.cut()
            else:
                segment.discard()

    def _go_on_with(self, segment: Segment) -> None:
        """Write into a new segment from now on."""
        self._open.segment.close()
        self._open.index.close()
        self._open.segment = segment
        self._open.index = Index(self._folder, segment.base)

    def _show(self) -> None:
        """Let readers see what is durable."""
        if self._shown != self._open.span:
            self._open.mark.put(self._open.span)
            self._shown = self._open.span

    def trim(self, before: int) -> None:
        """Let go of segments that hold only positions below `before`; others keep theirs.

        What was appended and not committed stays. Readers that are in a segment read it to its end.
        """
        with self._turn, told(self._folder):
            self._drop(before)
            if before >= self._open.span.end and self._open.segment.size > HEADER:
                with suppress(OSError):  # on a full disk the last one stays
                    self._roll()
                self._drop(before)

    def _drop(self, before: int) -> None:
        span = self._open.span
        kept = [base for base in bases(self._folder) if base <= min(before, span.end)]
        first = max(kept, default=0)
        if first > span.first:
            self._open.span = Span(first, span.end)
            self._show()
            drop(self._folder, first)

    def _roll(self) -> None:
        """Begin a new segment behind all that is durable."""
        self._open.segment.cut()
        segment = Segment.make(self._folder, self._open.span.end, self._open.latest)
        try:
            segment.sync()
            sync_folder(self._folder)
        except BaseException:
            self._take_back(segment)
            raise
        self._go_on_with(segment)

    def close(self) -> None:
        """Let another process write; what was not committed is dropped."""
        with self._turn:
            if not self._closed:
                self._closed = True
                self._open.close()
                os.close(self._lock)


def _locked(folder: Path) -> int:
    """Return a file that is locked for us as long as it is open."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise held(folder) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
