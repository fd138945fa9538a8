"""The agent of sites: a keeper for each pipeline at each of them, and answers to questions."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millrace.agent.generations import Generations
from millrace.agent.keeper import Keeper
from millrace.agent.making import Workshop
from millrace.agent.queries import Queries
from millrace.errors import OperationFailed
from millrace.ports.link import PipelineGoal, PipelineReport, Question, SiteGoal, SiteReport

#: Pieces of work side by side, over all sites: as many as drivers start queries at once.
_WORKERS = 16
#: A pipeline at a site.
Place = tuple[str, str]
#: Makes the workshop of a pipeline at a site.
WorkshopOf = Callable[[str, str], Workshop]
Answer = Mapping[str, Any]


_LOG = logging.getLogger(__name__)


def _nothing() -> None:
    """Nobody asks, nobody is told."""


@dataclass(slots=True)
class Agent:
    """Makes sites what they shall be; `exchange` is called by one thread."""

    workshop: WorkshopOf
    #: The folder of a pipeline at a site.
    place: Callable[[str, str], Path]
    clock: Callable[[], float] = time.monotonic
    #: See `Keeper`.
    allowed: Callable[[], None] = _nothing
    wake: Callable[[], None] = _nothing
    unheard: Callable[[], float] = lambda: 0.0
    #: Answers a question about a site.
    answer: Callable[[Keeper, Question], Answer] | None = None
    _keepers: dict[Place, Keeper] = field(default_factory=dict)
    _answers: dict[str, Future[Answer]] = field(default_factory=dict)
    _pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_WORKERS, thread_name_prefix="agent")
    )

    def exchange(self, goals: Mapping[str, SiteGoal]) -> dict[str, SiteReport]:
        """Take what sites shall be, begin what is missing, and return what they are."""
        for site, goal in goals.items():
            for pipeline in goal.pipelines:
                if (pipeline, site) not in self._keepers:
                    self._keepers[pipeline, site] = self._keeper(pipeline, site)
        nothing = PipelineGoal()
        for (pipeline, site), keeper in self._keepers.items():
            told = nothing
            if site in goals:
                told = goals[site].pipelines.get(pipeline, nothing)
                keeper.queries.generations.under = goals[site].generation
            keeper.tell(told)
            try:
                keeper.tick()
            except Exception:  # others must go on
                _LOG.exception("site %s of %s was not looked at", site, pipeline)
        return {site: self._report(site, goal) for site, goal in goals.items()}

    def _report(self, site: str, goal: SiteGoal) -> SiteReport:
        pipelines = {
            pipeline: _reported(keeper)
            for (pipeline, at), keeper in self._keepers.items()
            if at == site
        }
        return SiteReport(site, goal.generation, pipelines, self._answered(site, goal.questions))

    def _answered(self, site: str, questions: Mapping[str, Question]) -> dict[str, Answer]:
        """Begin to answer what is new, and return what is answered."""
        for name, question in questions.items():
            if name not in self._answers:
                keeper = self._keepers.get((question.pipeline, site))
                self._answers[name] = self._pool.submit(self._answer, keeper, question)
        for name in [n for n in self._answers if n.startswith(f"{site}/") and n not in questions]:
            del self._answers[name]
        return {
            name: self._answers[name].result() for name in questions if self._answers[name].done()
        }

    def _answer(self, keeper: Keeper | None, question: Question) -> Answer:
        try:
            if keeper is None or self.answer is None:
                message = f"{question.pipeline} has nothing at this site"
                raise OperationFailed("no-answer", message)
            return self.answer(keeper, question)
        except OperationFailed as failure:
            return _refusal(failure)
        except Exception as error:
            _LOG.exception("a question about %s was not answered", question.name)
            return _refusal(OperationFailed("no-answer", f"{type(error).__name__}: {error}"))
        finally:
            self.wake()

    def _keeper(self, pipeline: str, site: str) -> Keeper:
        generations = Generations(self.place(pipeline, site) / "generations.json")
        workshop = self.workshop(pipeline, site)
        queries = Queries(workshop, generations, self.unheard)
        return Keeper(
            site, workshop, queries, self._pool, self.clock, allowed=self.allowed, wake=self.wake
        )

    @property
    def keepers(self) -> list[Keeper]:
        """All keepers."""
        return list(self._keepers.values())

    def kill(self) -> None:
        """End every process at once; the next start finds what was written."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for keeper in self._keepers.values():
            keeper.workshop.kill()

    def close(self) -> None:
        """Stop all that runs as planned; returning promises that no process of ours is left."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        shops = [keeper.workshop for keeper in self._keepers.values()]
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="closing") as pool:
            list(pool.map(lambda shop: shop.halt(), shops))
            list(pool.map(lambda shop: shop.close(), shops))
        self._pool.shutdown(wait=True, cancel_futures=True)


def _reported(keeper: Keeper) -> PipelineReport:
    """What a site is for a pipeline; where that can't be told, that it can't."""
    try:
        return keeper.report()
    except Exception as error:
        _LOG.exception("site %s can't be told of", keeper.site)
        return PipelineReport(errors={"": f"{type(error).__name__}: {error}"})


def _refusal(failure: OperationFailed) -> Answer:
    return {
        "failed": {
            "code": failure.code,
            "message": failure.message,
            "hint": failure.hint,
            "transient": failure.transient,
        }
    }
