"""The jobs of a driver: examined, started, stopped, listed, described."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from threading import Lock, Thread
from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from millrace.engines.spark import lease
from millrace.engines.spark.begun import has_begun
from millrace.engines.spark.compile import compiled
from millrace.engines.spark.drains import TOO_SLOW, Ends, drained, not_drained, run_out, settle
from millrace.engines.spark.errors import failure_document, run_failure
from millrace.engines.spark.formats import Schema
from millrace.engines.spark.listener import Listener
from millrace.engines.spark.mode import Choice, QueryFacts, choose, likely_batches
from millrace.engines.spark.once import once_of
from millrace.engines.spark.outside.bridge import bridged, outside
from millrace.engines.spark.outside.carried import others, read_elsewhere
from millrace.engines.spark.outside.receiving import Receivers
from millrace.engines.spark.prepared import Compiled
from millrace.engines.spark.query import DRAIN_SECONDS, Query, start_query, wait_for
from millrace.engines.spark.session import DriverSettings, job_session, like_real_time
from millrace.engines.spark.source import READER
from millrace.engines.spark.writing import by_brokers
from millrace.errors import OperationFailed
from millrace.model.job import Job, Mode
from millrace.ports import JobOrder, JobState, LogOf, TransactionsOf

Tell = Callable[[dict[str, Any]], object]


@dataclass(frozen=True, slots=True)
class _Prepared:
    session: SparkSession
    query: Compiled
    choice: Choice

    def facts(self, job: Job) -> dict[str, Any]:
        """What is told of one of the query's jobs."""
        schemas = self.query.schemas
        return {
            "mode": self.choice.mode.value,
            "reasons": list(self.choice.reasons),
            "schemas": {n: dict(schemas[n]) for n in job.writes if not outside(n)},
            "operators": list(self.query.operators.names),
            "stateful": self.query.operators.stateful,
            "carries": self.query.carries,
        }


class Jobs:
    """What runs in this driver. Every method may be called from any thread."""

    def __init__(
        self,
        session: SparkSession,
        settings: DriverSettings,
        tell: Tell,
        transactions: TransactionsOf | None = None,
        log: LogOf | None = None,
    ) -> None:
        self._session = session
        self._settings = settings
        self._tell = tell
        self._transactions = transactions
        self._log = log
        self._queries: dict[str, Query] = {}
        #: By job, the orders that were carried out here, whether they still run or not.
        self._started: dict[str, JobOrder] = {}
        self._examined: dict[str, _Prepared] = {}
        #: By query, why its input can't be received.
        self._unreceivable: dict[str, OperationFailed] = {}
        self._receivers = Receivers(self._unreceived)
        self._lock = Lock()

    def examine(self, orders: list[JobOrder]) -> dict[str, Any]:
        """Return how each job would run; streams without a schema take their writer's."""
        known: dict[str, Schema] = {}
        found: dict[str, Any] = {}
        for order in orders:
            made = self._prepared(bridged(order), known)
            with self._lock:
                self._examined[order.job.name] = made
            found |= {job.name: made.facts(job) for job in made.query.order.jobs}
            if order.job.bridge:  # to which all records are bytes
                found[order.job.name]["schemas"] = {}
            else:
                known |= made.query.schemas
        return found

    def start(self, order: JobOrder) -> dict[str, Any]:
        """Start a job; one that runs already is left alone, one whose source ended is over."""
        name, order = order.job.name, bridged(order)
        with self._lock:
            running = self._queries.get(name)
        if running is not None and running.stream.isActive:
            return {"mode": running.mode.value}
        with self._lock:
            made = self._examined.pop(name, None)
            self._unreceivable.pop(name, None)
        query = made.query.fits(order) if made is not None else None
        made = replace(made, query=query) if made and query else self._prepared(order, {})
        lease.claim(order.place)
        choice = made.choice
        listener = Listener(name, self)
        made.session.streams.addListener(cast("StreamingQueryListener", listener))
        started: Query | None = None
        try:
            self._receivers.begin(order)
            once = once_of(made.query, self._transactions)
            started = start_query(made.session, made.query, choice.mode, once, self._log)
            self._told_progress(started)
            self._told(order, JobState.STARTING, choice=choice, run=started.run)
            with self._lock:
                self._queries[name] = started
                self._started |= {job.name: order for job in order.jobs}
            listener.known.set()
            begun = self._begin(started, choice)
        except BaseException:
            self._give_up(started)
            self._receivers.end(name)
            lease.let_go(order.place)  # where it ran before it may go on
            raise
        finally:
            listener.known.set()
        if started.over:
            self._finish_soon(started)
        reasons = list(choice.reasons)
        there = started.resumed
        return {"mode": choice.mode.value, "reasons": reasons, "there": there, "begun": begun}

    def _begin(self, query: Query, choice: Choice) -> bool:
        """Say that a job runs once its query reads; raises where it failed before.

        Returns whether it is known to read.
        """
        order = query.compiled.order
        begun = has_begun(query)
        with self._lock:
            unreceived = self._unreceivable.get(order.job.name)
        if unreceived is not None:
            raise unreceived
        if not begun and query.failure:
            raise run_failure(order.job.name, query.failure)
        with self._lock:  # that it ended is told after this, or was told already
            if self._queries.get(order.job.name) is query:
                self._told(order, JobState.RUNNING, choice=choice, run=query.run)
        return begun

    def _give_up(self, query: Query | None) -> None:
        """Let nothing run on of a start that fails."""
        if query is None:
            return
        with self._lock:
            if self._queries.get(query.compiled.order.job.name) is query:
                self._queries.pop(query.compiled.order.job.name)
        query.stop()

    def _prepared(self, order: JobOrder, known: Mapping[str, Schema]) -> _Prepared:
        """A job's query in a session of its own, and the mode that it takes."""
        own = job_session(self._session, order.job, READER)
        elsewhere = others(order)
        batches = likely_batches(order.jobs) or bool(elsewhere)
        query = compiled(own, order, known, batches=batches)
        parts = sum(source.stream.partitions for source in query.sources)
        facts = QueryFacts(
            query.operators.names,
            query.operators.python,
            query.operators.stateful,
            query.carries,
            query.letters,
            by_brokers(query),
            parts,
            self._settings.slots,
            bool(elsewhere),
        )
        choice = choose(order.jobs, facts)
        if batches is (choice.mode is Mode.REAL_TIME):
            query = compiled(own, order, known, batches=not batches)
        return _Prepared(own, query, choice)

    def stop(self, name: str, ends: Mapping[str, Mapping[str, int]] | None) -> dict[str, Any]:
        """Stop a job; with `ends` all input up to there is committed first.

        Raises where it is not, because its query ended before or is not there.
        """
        wanted = {s: {int(p): at for p, at in ps.items()} for s, ps in (ends or {}).items()}
        query = self._query(name)
        if query is None:
            self._check_drained(name, wanted)
            self._let_go(name)
            return {}
        running = query.compiled.order.job.name
        self._receivers.end(running, drained=ends is not None, left=ends or ())
        if ends is not None:
            query = self._drain(query, wanted)
        query.stop()
        settle(query)
        with self._lock:
            self._queries.pop(query.compiled.order.job.name, None)
        lease.let_go(query.compiled.order.place)
        self._told_progress(query)
        self._told(query.compiled.order, JobState.STOPPED)
        return {"progress": asdict(query.ledgers[name].progress)}

    def _let_go(self, name: str) -> None:
        """Let another driver have the place of a job whose query ended by itself."""
        with self._lock:
            order = self._started.get(name)
        if order is not None:
            lease.let_go(order.place)

    def _check_drained(self, name: str, ends: Ends) -> None:
        """Raise for a job that does not run and had not committed all up to some ends."""
        with self._lock:
            order = self._started.get(name)
        if any(ends.values()) and (order is None or not drained(order, ends)):
            raise not_drained(name, "its query is not there any more")

    def _query(self, name: str) -> Query | None:
        """The query that a job is in, if it runs here."""
        with self._lock:
            return next((query for query in self._queries.values() if name in query.ledgers), None)

    def _drain(self, query: Query, ends: Ends) -> Query:
        """Let a job commit all up to some ends; returns the query that did, for its stop.

        A real-time one goes on in drain mode for that, and one that reads what is outside: that is
        read up to where it is now.
        """
        order = query.compiled.order
        if order.job.read is not None or read_elsewhere(order):
            return self._run_out(query, ends)
        if query.drained(ends) or drained(order, ends):
            return query
        if query.mode is Mode.REAL_TIME:
            return self._run_out(query, ends)
        wait_for(
            lambda: drained(order, ends) or not query.stream.isActive,
            DRAIN_SECONDS,
            f"job {order.job.name} was not drained",
        )
        if not drained(order, ends):
            raise not_drained(order.job.name, _end_of(query))
        return query

    def _run_out(self, query: Query, ends: Ends) -> Query:
        """Stop a query and let another read from there what is there now, to its end."""
        query.stop()
        settle(query)
        order = query.compiled.order
        name = order.job.name
        try:
            session = job_session(self._session, order.job, READER)
            if query.mode is Mode.REAL_TIME:
                like_real_time(session)
            again = compiled(session, order, {}, batches=True)
            once = once_of(again, self._transactions)
            last = start_query(session, again, Mode.DRAIN, once, self._log)
            # One ledger for both: news of the first may still come, and must not undo the other's.
            last = replace(last, ledgers=query.ledgers)
            run_out(last, self._told_progress)
            if last.failure:
                raise run_failure(name, last.failure)
        except Exception as error:
            failed = error if isinstance(error, OperationFailed) else run_failure(name, str(error))
            with self._lock:
                self._queries.pop(name, None)
            self._told(order, JobState.FAILED, failure=failed)
            slow = failed.code == TOO_SLOW
            raise failed if slow else not_drained(name, failed.message) from error
        if not drained(order, ends):
            raise not_drained(name, _end_of(last))
        return last

    def describe(self, name: str) -> dict[str, Any]:
        """Return what is known of a job, Spark's own plan of it included."""
        query = self._query(name)
        if query is None:
            raise OperationFailed("no-job", f"job {name} does not run in this driver")
        return {
            "mode": query.mode.value,
            "operators": list(query.compiled.operators.names),
            "progress": asdict(query.ledgers[name].progress),
            "fused": [job.name for job in query.compiled.order.fused],
            "status": dict(query.stream.status),
        }

    def names(self) -> list[str]:
        """Return the names of the jobs that run."""
        with self._lock:
            return [
                name for query in self._queries.values() if query.stream.isActive
                for name in query.ledgers
            ]  # fmt: skip

    def progressed(self, name: str, event: dict[str, Any]) -> None:
        """A query reports a batch."""
        with self._lock:
            query = self._queries.get(name)
        if query is not None:
            query.add(event, time.time())
            self._told_progress(query)
            if query.ends(event):
                self._finish_soon(query)

    def _finish_soon(self, query: Query) -> None:
        """End a job, not in this thread: Spark waits for it when a query is stopped."""
        if not query.gate.closed.is_set():
            Thread(target=self._finish, args=(query,), daemon=True).start()

    def _finish(self, query: Query) -> None:
        """End a job whose source has ended."""
        query.stop()
        settle(query)
        with self._lock:
            self._queries.pop(query.compiled.order.job.name, None)
        self._told_progress(query)
        self._told(query.compiled.order, JobState.ENDED)

    def terminated(self, name: str, run: str, error: str | None) -> None:
        """A run of a query ended; by itself or by an error, unless a stop was ordered.

        That may be told late, when the next one runs already.
        """
        with self._lock:
            query = self._queries.get(name)
            if query is None or query.run != run or query.gate.closed.is_set():
                return
            self._queries.pop(name, None)
        order = query.compiled.order
        if error is None:
            self._told(order, JobState.ENDED)
            return
        failed = run_failure(name, error)
        self._told(order, JobState.FAILED, failure=failed)

    def _unreceived(self, order: JobOrder, failure: OperationFailed) -> None:
        """A query's input can't be received, and trying again does not help."""
        query = self._query(order.job.name)
        with self._lock:
            self._unreceivable[order.job.name] = failure
        if query is not None:
            query.stop()
            settle(query)
            with self._lock:
                self._queries.pop(order.job.name, None)
            lease.let_go(order.place)
            self._told(order, JobState.FAILED, failure=failure)

    def _told_progress(self, query: Query) -> None:
        for name, ledger in query.ledgers.items():
            progress = asdict(ledger.progress)
            self._tell({"event": "progress", "job": name, "progress": progress})

    def _told(
        self,
        order: JobOrder,
        state: JobState,
        *,
        choice: Choice | None = None,
        run: str = "",
        failure: OperationFailed | None = None,
    ) -> None:
        message: dict[str, Any] = {"event": "job", "state": state.value}
        if choice is not None:
            message |= {"mode": choice.mode.value, "reasons": list(choice.reasons), "run": run}
        if failure is not None:
            message |= failure_document(failure)
        for job in order.jobs:
            self._tell({**message, "job": job.name})


def _end_of(query: Query) -> str:
    name = query.compiled.order.job.name
    return run_failure(name, query.failure).message if query.failure else "its query ended"
