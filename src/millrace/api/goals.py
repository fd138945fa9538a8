"""What sites shall be, ready to be sent: worked out once for all who wait, written once each."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from millrace.api.lanes import Lanes
from millrace.api.news import News
from millrace.coordinator.station import Station
from millrace.ports.link import SiteGoal
from millrace.wire import goal_document

#: What sites tell may change what others shall be without a ring: it is looked at so often.
LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Told:
    """A goal as it is sent."""

    goal: SiteGoal
    sum: str
    body: bytes


@dataclass(slots=True)
class Goals:
    """The goals of all sites. Called in the event loop."""

    station: Station
    news: News
    lanes: Lanes
    _found: Mapping[str, SiteGoal] = field(default_factory=dict)
    _stamp: tuple[int, float] = (-1, 0.0)
    _told: dict[str, Told] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def of(self, site: str) -> Told:
        """Return what a site shall be now; the same object for as long as that is the same."""
        async with self._lock:
            rings, at = self._stamp
            if rings != self.news.rings or time.monotonic() - at > LOOK_SECONDS:
                self._stamp = (self.news.rings, time.monotonic())
                self._found = await self.lanes.look(self.station.coordinator.goals)
        generation = self.station.coordinator.tenure.generation
        bare = self._found.get(site) or SiteGoal(generation)
        goal = self.station.asked(site, bare)
        known = self._told.get(site)
        if known is None or not _same(known.goal, goal):
            known = await self.lanes.look(_written, goal)
            self._told[site] = known
        return known


def _same(one: SiteGoal, other: SiteGoal) -> bool:
    """Whether two goals are made of the very same things, which costs nothing to find out."""
    return (
        one.generation == other.generation
        and one.questions == other.questions
        and one.pipelines.keys() == other.pipelines.keys()
        and all(goal is other.pipelines[name] for name, goal in one.pipelines.items())
    )


def _written(goal: SiteGoal) -> Told:
    text = json.dumps(goal_document(goal), sort_keys=True)
    total = hashlib.sha256(text.encode()).hexdigest()
    return Told(goal, total, f'{{"sum": "{total}", "goal": {text}}}'.encode())
