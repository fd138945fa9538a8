"""A recorded file, given out line by line when each is due by its own time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from millrace.engines.spark.outside.feed import (
    MOST_BYTES,
    Ends,
    Entry,
    Part,
    at_name,
    end_name,
    now,
)
from millrace.engines.spark.outside.lines import lines_between

#: The time of a line in seconds; None where it has none that can be read.
TimeOf = Callable[[bytes], float | None]


class Replay:
    """A feed with one part, whose positions are lines.

    A record is due when as much time has passed, times the speed, as lies between it and the one
    at which this reader began; so a stop is no gap in the recording. A line without a time is due
    with the one before it, as is one whose time runs back.
    """

    def __init__(self, name: str, path: Path, speed: float, time_of: TimeOf) -> None:
        self._name = name
        self._bytes = f"{name} bytes"
        self._path = path
        self._speed = speed
        self._time_of = time_of
        #: When this reader began, and the recording's time then.
        self._begun: tuple[float, float] | None = None

    def begin(self) -> Ends:
        """Return the beginning of the recording."""
        return {self._name: {"0": 0}, self._bytes: {"0": 0}}

    def latest(self, start: Ends) -> Ends:
        """Return the end of the lines that are due."""
        if end_name(self._name) in start:
            return start
        line, at = start[self._name]["0"], start[self._bytes]["0"]
        lines, end, over = self._due(at)
        if not lines and not over:
            return start
        found = {self._name: {"0": line + lines}, self._bytes: {"0": end}}
        found[at_name(self._name)] = {"0": now()}
        if over:
            found[end_name(self._name)] = {"0": 1}
        return found

    def _due(self, at: int) -> tuple[int, int, bool]:
        """How many lines are due, where they end, and whether these are the last."""
        lines, end = 0, at
        with self._path.open("rb") as file:
            file.seek(at)
            while end - at < MOST_BYTES:
                line = file.readline()
                if not line:
                    return lines, end, True
                if not self._is_due(self._time_of(line)):
                    break
                lines, end = lines + 1, end + len(line)
        return lines, end, False

    def _is_due(self, recorded: float | None) -> bool:
        if recorded is None:
            return True
        if self._begun is None:
            self._begun = (time.monotonic(), recorded)
        begun, first = self._begun
        passed = time.monotonic() - begun
        return math.isinf(self._speed) or recorded - first <= passed * self._speed

    def freeze(self) -> None:
        """Let all of the recording be due at once."""
        self._speed = math.inf

    def close(self) -> None:
        """Nothing is open between calls."""

    def parts(self, start: Ends, end: Ends) -> Sequence[Part]:
        """Return the lines between."""
        about = {"from": start[self._bytes]["0"], "to": end[self._bytes]["0"]}
        if about["from"] == about["to"]:
            return []
        return [Part(0, start[self._name]["0"], about, end[at_name(self._name)]["0"])]

    def records(self, part: Part) -> Iterator[Entry]:
        """Return the lines of a part, without their ends."""
        about = part.about
        with self._path.open("rb") as file:
            found = lines_between(file, about["from"], about["to"], str(self._path))
            for position, line in enumerate(found, part.first):
                yield Entry(position, line, part.at)
