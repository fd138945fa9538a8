"""Does the runs of an experiment: set-up by set-up, each result kept when it is there."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from threading import Event

from millrace.errors import OperationFailed
from millrace.experiment.conditions import machine, versions
from millrace.experiment.declaration import Declaration
from millrace.experiment.links import Way, carrying
from millrace.experiment.matrix import Run, by_setup, runs
from millrace.experiment.port import Around, Experiment, Measuring, Stopped
from millrace.experiment.results import Result, append, good, read


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a campaign ended."""

    results: tuple[Result, ...]
    failed: int = 0
    stopped: bool = False


@dataclass(slots=True)
class Campaign:
    """All runs of a declaration, into a folder."""

    experiment: Experiment
    declared: Declaration
    folder: Path
    say: Callable[[str], None]
    stop: Event
    command: Sequence[str] = ()
    #: Leave out what the folder holds already.
    resume: bool = False

    def perform(self) -> Outcome:
        """Do what is to be done; a run that fails is noted, and the others go on.

        Raises where the folder holds results and they are not to be gone on with.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        before = read(self.folder)
        if before and not self.resume:
            raise OperationFailed(
                "results-there",
                f"{self.folder} holds {len(before)} results already",
                "go on with them by --resume, or give another folder with --out",
            )
        if self.declared.links:
            self.declared = replace(self.declared, way=self._way())
        known = {result.key for result in good(before)}
        every = runs(self.declared)
        left = [run for run in every if run.key not in known]
        if len(left) < len(every):
            self.say(f"{len(every) - len(left)} of {len(every)} runs are there already")
        groups, stopped = by_setup(left, self.declared), False
        pace = _Pace(len(left), len(groups))
        try:
            for group in groups:
                pace.setups -= 1
                self._group(group, pace)
        except Stopped:
            stopped = True
        wanted = {run.key for run in every}
        found = tuple(result for result in read(self.folder) if result.key in wanted)
        return Outcome(found, sum(bool(result.error) for result in found), stopped)

    def _way(self) -> Way:
        """How links can be made here; where that is another way than declared, it is said."""
        with (
            tempfile.TemporaryDirectory(prefix="millrace-") as place,
            carrying(self.declared.way, Path(place) / "links.log", self.say) as carrier,
        ):
            return carrier.way

    def _group(self, group: list[Run], pace: _Pace) -> None:
        """Do the runs of one set-up; after a failure the rest gets a new one."""
        rest = list(group)
        while rest:
            with tempfile.TemporaryDirectory(
                prefix="millrace-", ignore_cleanup_errors=True
            ) as place:
                around = Around(self.declared, Path(place), self.say, self.stop)
                try:
                    self._session(rest, around, pace)
                except OperationFailed as failure:
                    # What could not be started fails the run that it was started for.
                    self._note(rest.pop(0), time.time(), 0.0, {}, str(failure))
                    pace.done += 1

    def _session(self, rest: list[Run], around: Around, pace: _Pace) -> None:
        self._alive()
        began = time.monotonic()
        with self.experiment.opened(rest[0].cell, around) as measure:
            for number in range(self.declared.warmup):
                self.say(f"warm-up {number + 1} of {self.declared.warmup}: {rest[-1]}")
                self._alive()
                measure(rest[-1])  # matrices grow towards their end: the largest warms best
            pace.setups_took.append(time.monotonic() - began)
            while rest:
                self._alive()
                self.say(f"[{pace.done + 1}/{pace.total}] {rest[0]}{pace.left()}")
                if not self._measured(rest.pop(0), measure, pace):
                    return

    def _measured(self, run: Run, measure: Measuring, pace: _Pace) -> bool:
        """Do one run and note what it found; whether it did not fail."""
        at, began = time.time(), time.monotonic()
        values, error = {}, ""
        try:
            values = {name: float(value) for name, value in measure(run).items()}
        except OperationFailed as failure:
            error = str(failure)
        took = time.monotonic() - began
        self._note(run, at, took, values, error)
        pace.done += 1
        pace.runs_took.append(took)
        return not error

    def _note(
        self, run: Run, at: float, seconds: float, values: dict[str, float], error: str
    ) -> None:
        result = Result(
            experiment=self.declared.name,
            cell=dict(run.cell),
            repeat=run.repeat,
            seed=run.seed,
            values=values,
            started=datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"),
            seconds=round(seconds, 3),
            error=error,
            links=self.declared.way.value if self.declared.links else "",
            machine=machine(),
            versions=versions(),
            command=tuple(self.command),
        )
        append(self.folder, result)
        told = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
        self.say(f"  failed: {error}" if error else f"  {told}")

    def _alive(self) -> None:
        if self.stop.is_set():
            raise Stopped


@dataclass(slots=True)
class _Pace:
    """How far it is, and how long the rest may take."""

    total: int
    #: Set-ups that are still to be started.
    setups: int
    done: int = 0
    #: How long each took so far.
    runs_took: list[float] = field(default_factory=list)
    setups_took: list[float] = field(default_factory=list)

    def left(self) -> str:
        """Return how long the rest takes if it goes on like this."""
        if not self.runs_took:
            return ""
        seconds = mean(self.runs_took) * (self.total - self.done)
        seconds += mean(self.setups_took) * self.setups
        time_left = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
        return f"; about {time_left} left"
