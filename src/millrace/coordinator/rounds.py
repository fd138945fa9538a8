"""The coordinator's rounds: sites that are served here, the beat of its lease, and decisions."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from millrace.agent.agent import Agent
from millrace.coordinator.service import Coordinator
from millrace.coordinator.tenure import BEAT_SECONDS, Superseded
from millrace.errors import OperationFailed
from millrace.ports.link import PipelineGoal, SiteGoal

_LOG = logging.getLogger(__name__)
#: A round is made at least so often, for what nobody rings for.
ROUND_SECONDS = 1.0
#: After a ring others may follow at once: so long they are waited for.
_GATHER_SECONDS = 0.02
Found = TypeVar("Found")


@dataclass(slots=True)
class Bell:
    """Wakes who waits for news; any thread may ring and wait."""

    _condition: threading.Condition = field(default_factory=threading.Condition)
    _rings: int = 0
    _listeners: tuple[Callable[[], None], ...] = ()

    def ring(self) -> None:
        """There is news."""
        with self._condition:
            self._rings += 1
            self._condition.notify_all()
            listeners = self._listeners
        for told in listeners:
            told()

    def listen(self, told: Callable[[], None]) -> Callable[[], None]:
        """Have somebody told of each ring, in the ringer's thread; returns what ends that."""
        with self._condition:
            self._listeners = (*self._listeners, told)

        def stop() -> None:
            with self._condition:
                self._listeners = tuple(one for one in self._listeners if one is not told)

        return stop

    def wait(self, heard: int, limit: float) -> int:
        """Return how often it rang, when that is more than was `heard`, or after a while."""
        with self._condition:
            self._condition.wait_for(lambda: self._rings != heard, limit)
            return self._rings

    def pause(self, limit: float) -> None:
        """Return at the next ring, or after a while."""
        with self._condition:
            self._condition.wait(limit)

    def until(self, look: Callable[[], Found | None], limit: float) -> Found | None:
        """Return what a look finds, looking after each ring; None where that takes too long."""
        end, heard = time.monotonic() + limit, -1
        while (found := look()) is None and (left := end - time.monotonic()) > 0:
            heard = self.wait(heard, left)
        return found


@dataclass(slots=True)
class Rounds:
    """What a coordinator does by itself, in a thread of its own from `start` to `stop`."""

    coordinator: Coordinator
    agent: Agent
    bell: Bell
    #: What a site shall be with what it is asked, and whether it is served here.
    goal: Callable[[str, SiteGoal], SiteGoal]
    here: Callable[[str, PipelineGoal], bool]
    #: Told once, when this coordinator may do nothing more.
    superseded: Callable[[], None]
    _served: set[str] = field(default_factory=set)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Begin."""
        for work in (self._rounds, self._beats):
            thread = threading.Thread(target=work, name=work.__name__.strip("_"), daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End, and stop what runs here as planned; nobody is told anything any more."""
        self._stop.set()
        self.bell.ring()
        for thread in self._threads:
            thread.join(30)
        self.agent.close()

    def round(self) -> None:
        """Tell the sites that are served here what they shall be, hear them, and decide."""
        generation = self.coordinator.tenure.generation
        told = {site: self._own(site, goal) for site, goal in self.coordinator.goals().items()}
        told = {site: goal for site, goal in told.items() if goal.pipelines}
        self._served |= told.keys()
        goals = {
            site: self.goal(site, told.get(site) or SiteGoal(generation)) for site in self._served
        }
        for report in self.agent.exchange(goals).values():
            self.coordinator.roster.hear(report, self.coordinator.clocks.steady())
            if report.answers:
                self.bell.ring()  # who asked waits for it
        self.coordinator.tick()

    def _own(self, site: str, goal: SiteGoal) -> SiteGoal:
        """The part of a goal that is served here."""
        mine = {name: it for name, it in goal.pipelines.items() if self.here(site, it)}
        return replace(goal, pipelines=mine)

    def _rounds(self) -> None:
        heard = -1
        while not self._stop.is_set():
            begun = time.thread_time()
            try:
                self.round()
            except Superseded:
                self._give_up()
                return
            except OperationFailed as failure:  # no room for the state: what runs goes on
                _LOG.warning("%s", failure)
                self._stop.wait(ROUND_SECONDS)
            except Exception:  # the next round may work, and nobody else makes one
                _LOG.exception("a round failed")
                self._stop.wait(ROUND_SECONDS)
            heard = self.bell.wait(heard, ROUND_SECONDS)
            # Half of the time is for others: who asks the API must not wait for one round after
            # another.
            self._stop.wait(max(_GATHER_SECONDS, time.thread_time() - begun))

    def _beats(self) -> None:
        while not self._stop.wait(BEAT_SECONDS):
            try:
                self.coordinator.tenure.beat()
            except Superseded:
                self._give_up()
                return
            except OperationFailed as failure:
                _LOG.warning("%s", failure)

    def _give_up(self) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self.superseded()
