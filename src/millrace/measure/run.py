"""A probe of a running pipeline: sends a load into one stream and checks another one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from millrace.errors import MillraceError, OperationFailed
from millrace.measure.checker import Checker
from millrace.measure.fault import RunReport
from millrace.measure.load import Load, paced
from millrace.ports import Log, Record

#: How long a read waits for something new before it looks whether to go on, in seconds.
_IDLE: Final = 0.5


def run_check(
    log_in: Log,
    stream_in: str,
    log_out: Log,
    stream_out: str,
    load: Load,
    *,
    run: str,
    wait: float = 60.0,
    settle: float = 2.0,
    late_after: float | None = None,
    clock: Callable[[], float] = time.time,
    enough: Callable[[], bool] | None = None,
) -> RunReport:
    """Write a load to one stream while reading another from its end as of now; compare them.

    Waits up to `wait` seconds for the last records after the load, and `settle` seconds more for
    ones that come twice; all that stands in the stream then is counted. Raises where a stream
    can't be read or written; a failure of reading that may pass is tried again until then.

    A record has arrived when the broker says, as its `time`, or when it was read without that.
    The load ends before its time when there is `enough`.
    """
    checker = Checker(run)
    checker.expect(0, load.count)
    reader = _Reader(log_out, stream_out, checker, late_after, clock)
    reader.start()
    try:
        started = clock()
        records = paced(
            run, 0, load.rate, load.seconds, load.keys, load.seed, load.size, clock=clock
        )
        sent = log_in.write(stream_in, _while_wanted(records, reader, enough))
        ended = clock()
        if enough is not None:
            reader.expect(sent)
        reader.done.wait(wait)
        reader.join(settle)
    finally:
        reader.finish()
    if reader.error is not None:
        raise reader.error
    return RunReport(checker.report(), started, ended)


def _while_wanted(
    records: Iterator[Record], reader: _Reader, enough: Callable[[], bool] | None
) -> Iterator[Record]:
    """The records, as long as somebody reads the other end: no use to load for an hour else."""
    for record in records:
        if not reader.is_alive() or (enough is not None and enough()):
            return
        yield record


class _Reader(threading.Thread):
    """Reads a stream into a checker, which is the thread's alone until it has ended."""

    def __init__(
        self,
        log: Log,
        stream: str,
        checker: Checker,
        late_after: float | None,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(name=f"reader of {stream}", daemon=True)
        #: Set when all that is expected was read, or nothing more will be.
        self.done = threading.Event()
        #: Why reading failed, if it did and did not recover.
        self.error: Exception | None = None
        self._log = log
        self._stream = stream
        self._checker = checker
        self._late_after = late_after
        self._clock = clock
        self._stop_asked = threading.Event()
        self._sent: int | None = None
        self._at = {part: span.end for part, span in log.ends(stream).items()}

    def expect(self, count: int) -> None:
        """Say how many records were sent after all."""
        self._sent = count

    def finish(self) -> None:
        """Read up to the end as of now, and end."""
        self._stop_asked.set()
        self.join()

    def run(self) -> None:
        """Read until told to finish, or a failure that trying again can't help."""
        try:
            while not self._stop_asked.is_set():
                if not self._attempt(self._follow):
                    self._stop_asked.wait(_IDLE)
            self._attempt(self._close_up)
        except Exception as error:  # the thread that waits for this one raises it
            self.error = error
        finally:
            self.done.set()

    def _attempt(self, read: Callable[[], None]) -> bool:
        """Whether reading worked; raises what trying again can't help."""
        try:
            read()
        except OperationFailed as error:
            if not error.transient:
                raise
            self.error = error
            return False
        self.error = None
        return True

    def _follow(self) -> None:
        self._take(self._log.read(self._stream, dict(self._at), wait=_IDLE), stoppable=True)
        for part, span in self._log.ends(self._stream).items():
            self._at.setdefault(part, span.first)  # a partition that was added meanwhile
        self._count()

    def _count(self) -> None:
        if self._sent is not None:
            self._checker.expect(0, self._sent)
            self._sent = None
            if self._checker.complete:
                self.done.set()

    def _close_up(self) -> None:
        self._count()
        ends = {part: span.end for part, span in self._log.ends(self._stream).items()}
        self._take(self._log.read(self._stream, dict(self._at), ends), stoppable=False)

    def _take(self, records: Iterator[Record], *, stoppable: bool) -> None:
        for record in records:
            arrival = self._clock() if record.time is None else record.time / 1000
            self._checker.seen(record, arrival, self._late_after)
            if record.partition is None:
                raise MillraceError("a log gave a record without its partition")
            following = max(self._at.get(record.partition, 0), record.position + 1)
            self._at[record.partition] = following
            if self._checker.complete:
                self.done.set()
            if stoppable and self._stop_asked.is_set():
                return
