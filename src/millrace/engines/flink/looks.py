"""What the thread that watches a cluster does at each look: one question for all jobs, few more."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from millrace.engines.flink.rest import FlinkRest, SeenJob
from millrace.engines.flink.runs import Run, Runs
from millrace.engines.flink.states import short_of_slots
from millrace.errors import OperationFailed
from millrace.ports import JobState

#: How many jobs are counted at a look, one after the other, so that 100 jobs cost no more than 2.
COUNTED: Final = 2
#: Flink shows a job's errors from a copy that may be so old.
_COPY_SECONDS: Final = 4.0
#: So old an overview may be to find jobs in that others have started.
_FRESH_SECONDS: Final = 2.0
#: A job that waits so long is told why.
_WAITS_SECONDS: Final = 2.0
_TROUBLED: Final = ("FAILED", "FAILING", "RESTARTING")


@dataclass(slots=True)
class Looks:
    """What was seen last. `look` is for one thread, the rest for any."""

    rest: Callable[[], FlinkRest]
    runs: Runs
    #: Whether the cluster answered last.
    answered: bool = False
    _jobs: Mapping[str, SeenJob] = field(default_factory=dict)
    _asked: float = float("-inf")
    #: By run: since when it is in trouble, its state then, and why.
    _causes: dict[str, tuple[float, str, str]] = field(default_factory=dict)
    _turn: int = 0

    def jobs(self) -> Mapping[str, SeenJob]:
        """Return what the cluster shows, as it was a moment ago."""
        if time.monotonic() - self._asked < _FRESH_SECONDS:
            return self._jobs
        return self.rest().jobs()

    def look(self) -> None:
        """Ask, and take note of what is answered, or that nothing is."""
        asked = time.monotonic()
        try:
            jobs = self.rest().jobs()
            self._jobs, self._asked, self.answered = jobs, asked, True
            shown = dict(jobs)
            causes = {run.id: self._cause(run, shown) for run in self._living() if run.id in jobs}
            self.runs.seen(shown, asked, causes)
            self._count()
        except OperationFailed as failure:
            self._unanswered(failure.message)
        except (LookupError, TypeError, ValueError, AttributeError):
            self._unanswered(f"what answers at {self.rest().url} is no Flink")

    def _unanswered(self, said: str) -> None:
        self.answered, self._asked = False, float("-inf")
        self.runs.away(said)

    def _living(self) -> list[Run]:
        return [run for run in self.runs.all() if run.lives]

    def _cause(self, run: Run, shown: dict[str, SeenJob]) -> str:
        """Why a run is not running; asked for when that changes, and again while it is unknown."""
        seen = shown[run.id]
        if seen.state not in _TROUBLED:
            self._causes.pop(run.id, None)
            return self._waits(run, seen)
        since, state, cause = self._causes.get(run.id, (time.monotonic(), "", ""))
        if not cause or state != seen.state:
            cause = self.rest().cause(run.id) or cause
            self._causes[run.id] = (since, seen.state, cause)
        if seen.state == "FAILED" and not cause and time.monotonic() - since < _COPY_SECONDS:
            shown[run.id] = replace(seen, state="FAILING")  # what is told of an end is told once
        return cause

    def _waits(self, run: Run, seen: SeenJob) -> str:
        if not seen.waiting or time.monotonic() - run.began < _WAITS_SECONDS:
            return ""
        return short_of_slots(run.job, seen, self.rest().slots())

    def _count(self) -> None:
        running = [run for run in self._living() if run.status.state is JobState.RUNNING]
        for _ in range(min(COUNTED, len(running))):
            self._turn += 1
            run = running[self._turn % len(running)]
            with suppress(OperationFailed):
                records = self.rest().records(run.id)
                if records is not None:
                    self.runs.counted(run, records, time.time())
