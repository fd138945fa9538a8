"""Keeps a site as it shall be for one pipeline: looks, does what is missing, reports.

Nothing here waits: what takes long runs in a pool, one piece of work for each thing at a time. What
fails is tried again later and later; what can't work by itself is only reported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock

from millrace.agent.backoff import Backoff
from millrace.agent.making import Workshop
from millrace.agent.orders import received_by
from millrace.agent.queries import Queries, Work
from millrace.errors import OperationFailed
from millrace.model.pipeline import Pipeline
from millrace.model.status import JobFacts
from millrace.model.stream import UNKEPT
from millrace.ports import Broker
from millrace.ports.link import JobGoal, PipelineGoal, PipelineReport, Thing

_LOG = logging.getLogger(__name__)
#: A thing that work is about: its kind and name.
Key = tuple[str, str]
#: How often a broker is looked at, and lag while somebody looks.
LOOK_SECONDS = 2.0
#: So many queries are looked at side by side.
EXAMINERS = 2
#: The work of making all streams that are missing, at once.
_STREAMS: Key = ("streams", "")


@dataclass(frozen=True, slots=True)
class _Examined:
    """What engines found out about queries of a file, and why some can't run."""

    number: int | None = None
    queries: frozenset[str] = frozenset()
    facts: Mapping[str, JobFacts] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Keeper:
    """One pipeline at one site. `tell`, `tick` and `report` are called by one thread."""

    site: str
    workshop: Workshop
    queries: Queries
    pool: Executor
    clock: Callable[[], float]
    #: Raises where this agent may do nothing any more; asked before each piece of work.
    allowed: Callable[[], None] = lambda: None
    #: Told when a piece of work is over: there may be news.
    wake: Callable[[], None] = lambda: None
    _broker: Broker | None = None
    #: Where it is reached, and when it was looked at last.
    _address: str = ""
    _looked: float = 0.0
    _lagged: float = 0.0
    _ensured: set[Thing] = field(default_factory=set)
    _gone: set[Thing] = field(default_factory=set)
    #: Held while these two change: streams are made and dropped side by side.
    _noting: Lock = field(default_factory=Lock)
    _examined: _Examined = field(default_factory=_Examined)
    #: Where streams ended, by the number of the file for which that was asked.
    _ends: dict[tuple[int, Thing], Mapping[int, int]] = field(default_factory=dict)
    _busy: dict[Key, Future[None]] = field(default_factory=dict)
    _backoff: dict[Key, Backoff] = field(default_factory=dict)
    _failures: dict[Key, OperationFailed] = field(default_factory=dict)

    @property
    def goal(self) -> PipelineGoal:
        """What the site shall be."""
        return self.queries.goal

    @property
    def failures(self) -> dict[Key, OperationFailed]:
        """What was tried in vain last, by what it is about."""
        return dict(self._failures)

    def tries(self, query: str) -> int:
        """Return how often something was tried in vain with a query, one after another."""
        backoff = self._backoff.get(("job", query))
        return backoff.failures if backoff is not None else 0

    def give_up(self, query: str) -> None:
        """Try nothing more with a query that failed, until it has another goal."""
        if (failure := self._failures.get(("job", query))) is not None:
            final = OperationFailed(failure.code, failure.message, failure.hint)
            self._failures["job", query] = final

    def tell(self, goal: PipelineGoal) -> None:
        """Take a new goal; what failed for good under the old one may be tried again."""
        if goal is self.goal:
            return
        before = self.goal
        elsewhere = before.brokers != goal.brokers
        for name, job in goal.jobs.items():
            news = before.parcels.get(name) != goal.parcels.get(name)
            news = news or (elsewhere and name not in self.queries.runs)
            if news or before.jobs.get(name) != job:
                self._failures.pop(("job", name), None)
                self._backoff.pop(("job", name), None)
        if _things(before) != _things(goal):
            for key in [key for key in self._failures if key[0] != "job"]:
                self._failures.pop(key, None)
                self._backoff.pop(key, None)
        # What was asked for an earlier file says nothing of how long a stream is now.
        known = dict(self._ends)  # what is on its way may add to it
        self._ends = {key: ends for key, ends in known.items() if key[0] == goal.joined}
        self.queries.goal = goal

    def tick(self) -> None:
        """Begin what is missing; returns at once."""
        now = self.clock()
        for key, work in self._missing(now):
            pending, failure = self._busy.get(key), self._failures.get(key)
            if pending is not None and not pending.done():
                continue
            if failure is not None and not failure.transient:
                continue
            if self._backoff.setdefault(key, Backoff()).may(now):
                self._busy[key] = self.pool.submit(self._try, key, work, self._meant(key))

    def _pending(self, query: str) -> bool:
        """Whether something is being done with a query."""
        return self._is_busy(("job", query))

    def _is_busy(self, key: Key) -> bool:
        work = self._busy.get(key)
        return work is not None and not work.done()

    def _meant(self, key: Key) -> JobGoal | None:
        """What a query shall be, for work about one: its failure says nothing of another goal."""
        return self.goal.jobs.get(key[1]) if key[0] == "job" else None

    def _failed(self, key: Key, meant: JobGoal | None, failure: OperationFailed) -> None:
        if self._meant(key) == meant:
            self._failures[key] = failure
            self._backoff.setdefault(key, Backoff()).failed(self.clock())

    def _try(self, key: Key, work: Work, meant: JobGoal | None) -> None:
        backoff = self._backoff.setdefault(key, Backoff())
        try:
            self.allowed()
            work()
        except OperationFailed as failure:
            self._failed(key, meant, failure)
        except Exception as error:
            _LOG.exception("what is to be done about %s %s failed", *key)
            text = f"{type(error).__name__}: {error}"
            unknown = OperationFailed("unexpected", text, "see the log", transient=True)
            self._failed(key, meant, unknown)
        else:
            self._failures.pop(key, None)
            backoff.started(self.clock())
        finally:
            self.wake()

    def _missing(self, now: float) -> Iterator[tuple[Key, Work]]:
        """What is not as it shall be."""
        goal = self.goal
        yield from self._around_broker(goal, now)
        for folder in sorted(goal.offers - self.queries.offered.keys()):
            if self._pending(folder[0]):
                continue  # it may still be on its way to start, or to stop
            yield ("parcel", folder[0]), lambda folder=folder: self.queries.offer(folder)  # type: ignore[misc]
        asked, known = goal.examined, self._examined
        if asked is not None and (known.number != asked or not goal.queries <= known.queries):
            yield ("examine", ""), lambda: self._examine(asked, goal.queries)
        statuses = self.queries.statuses()
        for name in sorted({*goal.jobs, *self.queries.runs}):
            if (work := self.queries.wrong(name, statuses)) is None:
                continue
            if name not in self.queries.runs and goal.serving is not None and self._broker is None:
                continue  # it starts when the site's broker serves
            backoff = self._backoff.get(("job", name))
            if self.queries.failed(name, statuses) and backoff is not None and backoff.since:
                backoff.failed(now)  # it ran, and failed since
                self.queries.restarts[name] = self.queries.restarts.get(name, 0) + 1
            yield ("job", name), work

    def _around_broker(self, goal: PipelineGoal, now: float) -> Iterator[tuple[Key, Work]]:
        if goal.serving is not None and self._broker is None:
            yield ("broker", ""), lambda: self._serve(goal.serving or 0)
        elif goal.serving is None and self._broker is not None:
            yield ("broker", ""), self._end_broker
        elif self._broker is not None and now - self._looked > LOOK_SECONDS:
            yield ("broker", ""), self._look
        if goal.serving is not None and self._broker is None:
            return  # streams are made when it serves
        yield from self._around_streams(goal)
        yield from self._unmeasured(goal)
        if goal.watched and now - self._lagged > LOOK_SECONDS:
            yield ("lag", ""), self._look_at_lag

    def _around_streams(self, goal: PipelineGoal) -> Iterator[tuple[Key, Work]]:
        """Streams to make, all at once but for those that failed, and streams to drop."""
        missing = sorted(goal.streams - self._ensured)
        fresh = [thing for thing in missing if self._is_fresh(("stream", thing[0]))]
        if fresh:
            yield _STREAMS, lambda: self._ensure_all(fresh, goal.revisions)
        for thing in missing:
            if thing not in fresh:
                file = goal.revisions[thing[1]]
                yield ("stream", thing[0]), lambda thing=thing, file=file: self._ensure(file, thing)  # type: ignore[misc]
        if self._is_busy(_STREAMS):
            return  # what is to be dropped now may be among those
        for thing in sorted(goal.dropped - self._gone):
            yield ("stream", thing[0]), lambda thing=thing: self._drop(thing)  # type: ignore[misc]

    def _is_fresh(self, key: Key) -> bool:
        """Whether a stream may be made with others: it did not fail, and nobody is about it."""
        return key not in self._failures and not self._is_busy(key)

    def _unmeasured(self, goal: PipelineGoal) -> Iterator[tuple[Key, Work]]:
        """The streams of which it is asked where they end, and not known yet."""
        if (number := goal.joined) is None:
            return
        there = goal.measured - (goal.streams - self._ensured)  # what is made first has no end yet
        for thing in sorted(there):
            if (number, thing) not in self._ends:
                yield ("ends", thing[0]), lambda thing=thing: self._measure(number, thing)  # type: ignore[misc]

    def _measure(self, number: int, thing: Thing) -> None:
        """Find where a stream ends, once for each file that asks."""
        name, revision = thing
        file, around = self.goal.revisions[revision], self.queries.around(revision, "")
        self._ends[number, thing] = self.workshop.ends(file, name, around)

    def _examine(self, number: int, queries: frozenset[str]) -> None:
        """Ask engines about queries; raises where that may work later."""
        file = self.goal.revisions[number]
        facts: dict[str, JobFacts] = {}
        refused: dict[str, str] = {}

        def look(name: str) -> None:
            try:
                facts.update(self._look_at(file, number, name))
            except OperationFailed as failure:
                if failure.transient:
                    raise
                refused[name] = str(failure)

        with ThreadPoolExecutor(EXAMINERS) as examiners:
            list(examiners.map(look, sorted(queries)))
        self._examined = _Examined(number, queries, facts, refused)

    def _look_at(self, file: Pipeline, number: int, name: str) -> Mapping[str, JobFacts]:
        """Ask the engine about a query; one that runs here is looked at where it is.

        It may start there then with what was made of it. Where it can't go on as it is, or what it
        needs is away, it is looked at by itself.
        """
        engine, around = self.workshop.engine(file, name), self.queries.around(number, name)
        if (goal := self.goal.jobs.get(name)) is not None and name in self.queries.runs:
            with suppress(OperationFailed):
                return engine.examine([self.workshop.order(file, name, goal, around)])
        return engine.examine([self.workshop.order(file, name, None, around)])

    def _serve(self, number: int) -> None:
        broker = self.workshop.broker(self.goal.revisions[number])
        broker.start()
        self._broker = broker
        self._look()

    def _look(self) -> None:
        """See whether the broker serves; one that ended is started again."""
        if self._broker is None:
            return
        status = self._broker.status(whole=False)
        if not status.up:
            self._broker.start()
            status = self._broker.status(whole=False)
        self._address, self._looked = status.address, self.clock()

    def _look_at_lag(self) -> None:
        """Find how many records are behind the queries that run."""
        statuses, ends = self.queries.statuses(), {}
        for name, goal in self.goal.jobs.items():
            if name not in statuses:
                continue
            file, around = self.goal.revisions[goal.revision], self.queries.around(0, name)
            found = {}
            for stream in self.queries.query(goal.revision, name).follows:
                query = name if file.streams[stream].transport in UNKEPT else None
                key = (goal.revision, stream, query)
                if key not in ends:
                    ends[key] = self.workshop.ends(file, stream, around, query)
                at = statuses[name].progress.positions.get(stream, {})
                found[stream] = sum(max(end - at.get(p, 0), 0) for p, end in ends[key].items())
            self.queries.lags[name] = found
            self.queries.received[name] = self.workshop.received(file, name)
        self._lagged = self.clock()

    def _end_broker(self) -> None:
        if self._broker is not None:
            self._broker.stop()
        self._broker = None
        self._ensured.clear()

    def _ensure_all(self, things: Sequence[Thing], files: Mapping[int, Pipeline]) -> None:
        """Make streams, those of one file at once; where that fails, each by itself."""
        for number in sorted({thing[1] for thing in things}):
            file, of_file = files[number], [thing for thing in things if thing[1] == number]
            received = [thing for thing in of_file if received_by(file, thing[0])]
            kept = [thing for thing in of_file if thing not in received]
            for group in ([kept] if kept else []) + [[thing] for thing in received]:
                self._ensure_group(file, group)

    def _ensure_group(self, file: Pipeline, things: Sequence[Thing]) -> None:
        try:
            self._ensure(file, *things)
        except OperationFailed as failure:
            if len(things) > 1 and not failure.transient:
                for thing in things:
                    self._ensure_group(file, [thing])
                return
            for thing in things:  # a broker that is away is so for all
                if thing in self.goal.streams:  # else another file may have mended it
                    self._failed(("stream", thing[0]), None, failure)

    def _ensure(self, file: Pipeline, *things: Thing) -> None:
        """Make streams of one file; several only where nobody receives them."""
        broker = self.workshop.broker(file)
        broker.start()
        readers = received_by(file, things[0][0])
        broker.ensure(*(file.streams[thing[0]] for thing in things), readers=readers)
        names = {thing[0] for thing in things}
        with self._noting:
            self._ensured = {one for one in self._ensured if one[0] not in names} | set(things)
            self._gone = self._gone - set(things)

    def _drop(self, thing: Thing) -> None:
        file = self.goal.revisions[thing[1]]
        self.workshop.broker(file).drop(file.streams[thing[0]])
        with self._noting:
            self._ensured = self._ensured - {thing}
            self._gone = self._gone | {thing}

    def report(self) -> PipelineReport:
        """Return what is there; never waits."""
        goal, serving, known = self.goal, self._broker, self._examined
        told = known if known.number == goal.examined else _Examined()
        statuses = self.queries.statuses()
        failures = dict(self._failures)
        return PipelineReport(
            self._address if serving is not None else None,
            frozenset(goal.streams & self._ensured),
            frozenset(goal.dropped & self._gone),
            {
                name: self.queries.report(
                    name, statuses, failures.get(("job", name)), pending=self._pending(name)
                )
                for name in goal.jobs
            },
            {name: str(failure) for (kind, name), failure in failures.items() if kind != "job"},
            told.number,
            told.facts,
            told.refused,
            {f: self.queries.offered[f] for f in goal.offers & self.queries.offered.keys()},
            goal.joined,
            self._measured(goal),
        )

    def _measured(self, goal: PipelineGoal) -> dict[Thing, Mapping[int, int]]:
        """Where the streams end of which that is asked, as far as it is known."""
        known = dict(self._ends)
        return {thing: ends for (number, thing), ends in known.items()
                if number == goal.joined and thing in goal.measured}  # fmt: skip


def _things(goal: PipelineGoal) -> tuple[object, ...]:
    """What a goal says of all but queries."""
    streams = (goal.serving, goal.streams, goal.dropped, goal.measured, goal.joined)
    return (*streams, goal.offers, goal.examined, goal.queries)
