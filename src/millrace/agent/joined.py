"""An agent that joined a coordinator: keeps its site as last told, whether that is there or not."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from millrace.agent.agent import Agent
from millrace.agent.generations import way_above
from millrace.agent.http_link import read_goal
from millrace.errors import OperationFailed
from millrace.ports.link import Link, SiteGoal, SiteReport
from millrace.wire import goal_document

_LOG = logging.getLogger(__name__)
#: How long a question for a goal waits, how often the site is looked at, and how often it is told
#: of though nothing is new.
POLL_SECONDS = 25.0
LOOK_SECONDS = 0.5
TELL_SECONDS = 5.0
#: After a failure, the next try comes after so long.
_AGAIN_SECONDS = 1.0


@dataclass(slots=True)
class JoinedAgent:
    """The agent of one site. `run` keeps the site until `stop`."""

    site: str
    agent: Agent
    link: Link
    #: Holds what was told last: the site is kept by it after a restart, too.
    file: Path
    say: Callable[[str], None]
    _goal: SiteGoal = field(default_factory=lambda: SiteGoal(0))
    _sum: str = ""
    #: Whether the coordinator answered last time.
    _reached: bool | None = None
    _said: str = ""
    #: The generation of the coordinator that was not obeyed last, if that was said.
    _refused: int | None = None
    _renewed: float = float("-inf")
    _report: SiteReport | None = None
    _talking: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _news: threading.Event = field(default_factory=threading.Event)
    _changed: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Keep the site; returns when `stop` was called and all that ran here has stopped."""
        self._goal = self._remembered()
        threads = [
            threading.Thread(target=work, name=work.__name__.strip("_"), daemon=True)
            for work in (self._keeping, self._listening, self._telling)
        ]
        for thread in threads:
            thread.start()
        self._stop.wait()
        threads[0].join(30)
        self.agent.close()

    def stop(self) -> None:
        """Ask it to end."""
        self._stop.set()
        self._news.set()

    def wake(self) -> None:
        """There may be news at the site."""
        self._news.set()

    def _remembered(self) -> SiteGoal:
        try:
            return replace(read_goal(self.file.read_text("utf-8")), questions={})
        except FileNotFoundError:
            return SiteGoal(0)

    def _listening(self) -> None:
        """Ask the coordinator what shall be, again and again."""
        while not self._stop.is_set():
            asked = time.monotonic()
            try:
                heard = self.link.goal(self._sum, self._patience())
                self._there()
                if heard is None or self._take(heard[1]):
                    self._renewed = asked
                    self._sum = heard[0] if heard is not None else self._sum
            except OperationFailed as failure:
                self._away(failure)
                self._stop.wait(_AGAIN_SECONDS)
            except Exception:  # a goal that can't be read or kept: nothing is renewed by it
                _LOG.exception("what the coordinator said was not taken")
                self._stop.wait(_AGAIN_SECONDS)

    def _patience(self) -> float:
        """How long a question may wait: leases must be renewed well before they run out."""
        leases = [
            job.lease
            for goal in self._goal.pipelines.values()
            for file in goal.revisions.values()
            for job in file.jobs.values()
            if job.lease is not None
        ]
        return min([POLL_SECONDS, *(lease / 4 for lease in leases)])

    def unheard(self) -> float:
        """Return for how many seconds the coordinator did not say that what it said still holds."""
        return time.monotonic() - self._renewed

    def _take(self, goal: SiteGoal) -> bool:
        """Obey, unless the word is that of a coordinator whose time is over."""
        heard = self._goal.generation
        if goal.generation < heard:
            if self._refused != goal.generation:
                self._refused = goal.generation
                self.say(
                    f"a coordinator of generation {goal.generation} was not obeyed: "
                    f"one of generation {heard} came after it; {way_above(heard)}"
                )
            self._stop.wait(_AGAIN_SECONDS)
            return False
        self._refused = None
        if replace(goal, questions={}) != replace(self._goal, questions={}):
            fresh = self.file.with_name(f"{self.file.name}.new")
            fresh.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh.touch(mode=0o600)
            document = goal_document(replace(goal, questions={}))
            fresh.write_text(json.dumps(document), encoding="utf-8")
            fresh.replace(self.file)
        self._goal = goal
        self._news.set()
        return True

    def _keeping(self) -> None:
        """Keep the site as it shall be; nothing here waits for the coordinator."""
        while not self._stop.is_set():
            self._news.clear()
            (self._report,) = self.agent.exchange({self.site: self._goal}).values()
            self._changed.set()
            self._news.wait(LOOK_SECONDS)

    def _telling(self) -> None:
        """Tell of the site what is new, and now and then that it is there."""
        told, at = None, 0.0
        while not self._stop.is_set():
            self._changed.wait(LOOK_SECONDS)
            self._changed.clear()
            report, now = self._report, time.monotonic()
            if report is None or (report == told and now - at < TELL_SECONDS):
                continue
            try:
                self.link.tell(report)
                self._there()
                told, at = report, now
            except OperationFailed as failure:
                self._away(failure)
                self._stop.wait(_AGAIN_SECONDS)

    def _there(self) -> None:
        with self._talking:  # two threads hear of it
            news = not self._reached
            self._reached, self._said = True, ""
        if news:
            self.say("the coordinator answers")

    def _away(self, failure: OperationFailed) -> None:
        """Say once what is wrong; the next try may be wrong in another way."""
        if self._stop.is_set():  # the way is closed under who still waits for an answer
            return
        with self._talking:
            news = self._said != failure.code
            self._reached, self._said = False, failure.code
        if news:
            self.say(f"{failure}; the site is kept as last told")
