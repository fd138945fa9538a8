"""What an experiment must be: the contract that ours and a stranger's fulfil."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from millrace.errors import OperationFailed
from millrace.experiment.declaration import Cell, Declaration
from millrace.experiment.matrix import Run
from millrace.experiment.results import Result

#: Does a run and returns its figures by the names of the declaration's measures.
Measuring = Callable[[Run], Mapping[str, float]]


class Stopped(Exception):
    """Somebody pressed Ctrl-C: what was measured so far is kept."""


@dataclass(frozen=True, slots=True)
class Around:
    """What an experiment works with."""

    declared: Declaration
    #: A folder of its own, which goes afterwards.
    folder: Path
    #: Tells a person how far it is.
    say: Callable[[str], None]
    #: Set when it shall stop.
    stop: Event = field(default_factory=Event)

    def pause(self, seconds: float) -> None:
        """Wait; raises `Stopped` as soon as it shall stop."""
        if self.stop.wait(seconds):
            raise Stopped

    def until(
        self, holds: Callable[[], bool], limit: float, what: str, every: float = 0.05
    ) -> None:
        """Wait for a condition; raises where it does not hold in time, and when it shall stop."""
        end = time.monotonic() + limit
        while not holds():
            if time.monotonic() > end:
                raise OperationFailed("too-slow", f"{what}, after {limit:.0f} s")
            self.pause(every)


class Experiment(Protocol):
    """A measurement that can be repeated. One thread calls."""

    @property
    def declared(self) -> Declaration:
        """What it is; a person's file may give it other values."""
        ...

    def opened(self, cell: Cell, around: Around) -> AbstractContextManager[Measuring]:
        """Start what runs share whose cells agree in the factors of the set-up.

        Leaving the block promises that nothing that was started is left, also after a failure.
        A run that raises `OperationFailed` is noted as failed, and all is started anew for the
        next.
        """
        ...

    def findings(self, results: Sequence[Result]) -> list[str]:
        """Return what was found, in sentences, each a paragraph of Markdown."""
        ...

    def draw(self, results: Sequence[Result], axes: Any) -> None:
        """Draw the results into matplotlib's axes."""
        ...
