"""What people want to know of sites right now: asked with what sites are told, and waited for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from millrace.coordinator.roster import Roster
from millrace.coordinator.rounds import Bell
from millrace.errors import OperationFailed
from millrace.ports.link import Question

#: So long a question waits for its answer.
ANSWER_SECONDS = 20.0


@dataclass(slots=True)
class Questions:
    """The open questions; any thread may ask."""

    roster: Roster
    bell: Bell
    _open: dict[str, tuple[str, Question]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _lock: Lock = field(default_factory=Lock)

    def of(self, site: str) -> dict[str, Question]:
        """Return the open questions to a site, by their names."""
        with self._lock:
            return {name: asked for name, (at, asked) in self._open.items() if at == site}

    def ask(self, site: str, question: Question, limit: float = ANSWER_SECONDS) -> dict[str, Any]:
        """Return what a site answers; raises what it could not do, and where it says nothing."""
        name = f"{site}/{next(self._numbers)}"
        with self._lock:
            self._open[name] = (site, question)
        self.bell.ring()
        try:
            answer = self.bell.until(lambda: self.roster.answers().get(name), limit)
        finally:
            with self._lock:
                del self._open[name]
        if answer is None:
            raise OperationFailed(
                "no-answer",
                f"site {site} did not answer within {limit:.0f} s",
                "is its agent up? millrace get sites",
                transient=True,
            )
        return _told(answer)


def _told(answer: Mapping[str, Any]) -> dict[str, Any]:
    if (failed := answer.get("failed")) is not None:
        raise OperationFailed(
            str(failed["code"]),
            str(failed["message"]),
            str(failed["hint"]),
            transient=bool(failed["transient"]),
        )
    return dict(answer)
