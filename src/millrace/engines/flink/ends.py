"""How runs end: with a savepoint, so that nothing is lost or repeated, or cancelled without one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from millrace.engines.flink import kept as keeping
from millrace.engines.flink.kept import Kept
from millrace.engines.flink.rest import OVER, FlinkRest, SeenJob
from millrace.engines.flink.runs import Run, Runs
from millrace.errors import OperationFailed
from millrace.ports import JobOrder, JobState

#: How long a run that Flink is starting again is waited for before it is cancelled instead.
SETTLE_SECONDS: Final = 10.0
#: How long a run may take to end that was told to.
END_SECONDS: Final = 30.0
_PAUSE: Final = 0.05


@dataclass(frozen=True, slots=True)
class Ends:
    """Ends runs; `target` is where a run's savepoints go."""

    rest: Callable[[], FlinkRest]
    runs: Runs
    target: Callable[[JobOrder, str], str]

    def stop(self, run: Run) -> None:
        """End a run with a savepoint that its successor begins with; raises where it goes on.

        One that does not run can't be saved; it is cancelled, and its successor begins where Flink
        would have: with its last checkpoint, or with what it began with itself.
        """
        run.stopping = True
        try:
            if run.lives:
                shown = self._settled(run)
                if shown is None or shown.over:
                    pass
                elif shown.state == "RUNNING" and not shown.waiting:
                    self._save(run)
                else:
                    self.cancel(run)
            self.runs.settle(run, replace(run.status, state=JobState.STOPPED, error="", hint=""))
        finally:
            run.stopping = False

    def cancel(self, run: Run, seconds: float = END_SECONDS) -> None:
        """End a run as it is, and return when it has ended."""
        self.rest().cancel(run.id)
        self._wait_over(run, max(seconds, 1.0))

    def _settled(self, run: Run) -> SeenJob | None:
        """A run as it is when it runs or is over, or else after a while."""
        until = time.monotonic() + SETTLE_SECONDS
        while True:
            shown = self.rest().jobs().get(run.id)
            if shown is None or shown.over or (shown.state == "RUNNING" and not shown.waiting):
                return shown
            if not run.ran or time.monotonic() > until:
                return shown
            time.sleep(_PAUSE)

    def _save(self, run: Run) -> None:
        place, target = run.order.place, self.target(run.order, run.id)
        try:
            # Flink starts a job anew, or ends it, whose last savepoint fails; one that is written
            # beside its work does no harm where it fails, so that is tried first.
            tried = self.rest().savepoint(run.id, target, stop=False)
            location = self.rest().savepoint(run.id, target, stop=True)
        except OperationFailed as failure:
            raise self._goes_on(run, failure) from failure
        old, begin = keeping.read_kept(place).begin, keeping.named(place, location)
        keeping.write_kept(place, Kept(begin=begin))
        if self._state(run) not in (*OVER, None):  # it has read its last record, and hangs
            self.cancel(run)
        keeping.tidy(place, begin)
        if begin == location:  # and so is what came before it: not in the folder
            for path in filter(None, (tried, old)):
                self.rest().dispose(path)

    def _goes_on(self, run: Run, failure: OperationFailed) -> OperationFailed:
        """What to say of a run that is not stopped, or not as it should be."""
        state, hint = self._state(run), failure.hint
        if state is None or state in OVER:
            told, hint = "ended while it was to be stopped", "start it again: its progress is kept"
        elif state in ("FAILING", "RESTARTING"):
            told = "was not stopped, Flink starts it again"
        else:
            told = "was not stopped, it goes on"
        text = f"job {run.job} {told}: {failure.message}"
        return OperationFailed(failure.code, text, hint, transient=failure.transient)

    def _state(self, run: Run) -> str | None:
        try:
            return self.rest().state(run.id)
        except OperationFailed:
            return "UNKNOWN"

    def _wait_over(self, run: Run, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (state := self.rest().state(run.id)) is not None and state not in OVER:
            if time.monotonic() > until:
                raise OperationFailed(
                    "not-ended",
                    f"job {run.job} did not end within {seconds:.0f} s",
                    f"see {self.rest().url}/#/job/{run.id}",
                    transient=True,
                )
            time.sleep(_PAUSE)
