"""The sites that a coordinator knows: who serves each, and what was heard of it last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Lock

from millrace.coordinator.phases import Reports
from millrace.ports.link import SiteReport

#: A site whose agent was not heard of for so long counts as away.
AWAY_SECONDS = 15.0


class Served(StrEnum):
    """Who serves a site: the coordinator itself, or an agent that joined."""

    HERE = "here"
    JOINED = "joined"


@dataclass(frozen=True, slots=True)
class Heard:
    """What a site told last, and when, by a clock that only goes forward."""

    report: SiteReport
    at: float


@dataclass(slots=True)
class Roster:
    """What is known of sites; any thread may call."""

    _heard: dict[str, Heard] = field(default_factory=dict)
    #: When each site was last told what it shall be, which renews the leases of its queries.
    _granted: dict[str, float] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def grant(self, site: str, now: float) -> None:
        """Take note that a site is told what it shall be."""
        with self._lock:
            self._granted[site] = now

    def granted(self, site: str, now: float) -> float:
        """Return when a site was told last; at the first question, now: nobody knows of before."""
        with self._lock:
            return self._granted.setdefault(site, now)

    def hear(self, report: SiteReport, now: float) -> bool:
        """Take what a site tells; whether that is news."""
        with self._lock:
            before = self._heard.get(report.site)
            self._heard[report.site] = Heard(report, now)
            return before is None or before.report != report

    def last(self, site: str) -> Heard | None:
        """Return what a site told last."""
        with self._lock:
            return self._heard.get(site)

    def silence(self, site: str, now: float) -> float | None:
        """Return for how many seconds nothing was heard of a site; None if nothing ever was."""
        heard = self.last(site)
        return None if heard is None else max(now - heard.at, 0.0)

    def reports(self, pipeline: str) -> Reports:
        """Return what sites told last of a pipeline."""
        with self._lock:
            return {
                site: heard.report.pipelines[pipeline]
                for site, heard in self._heard.items()
                if pipeline in heard.report.pipelines
            }

    def answers(self) -> Mapping[str, Mapping[str, object]]:
        """Return what sites answered to questions."""
        with self._lock:
            return {
                name: answer
                for heard in self._heard.values()
                for name, answer in heard.report.answers.items()
            }
