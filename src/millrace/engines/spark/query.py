"""A job that runs: its query, how it is stopped, and what is known of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.streaming.query import StreamingQuery

from millrace.engines.spark.checkpoint import Committed, committed, make_folders, tidy
from millrace.engines.spark.compile import Compiled
from millrace.engines.spark.fate import DROPPED, MALFORMED, USED
from millrace.engines.spark.formats import text
from millrace.engines.spark.ledger import Ledger
from millrace.engines.spark.observed import observed_in
from millrace.engines.spark.planned import shortened
from millrace.engines.spark.resume import tail_of, unwritten
from millrace.engines.spark.sink import FATE, FIRST, ROW, STREAM
from millrace.errors import OperationFailed
from millrace.model.job import Mode
from millrace.model.stream import Stream

#: How long a planned stop waits for a batch that is being written.
STOP_SECONDS = 7.0
DRAIN_SECONDS = 600.0
#: Writers keep a record until the broker took it: one that gave up could leave a gap.
_PRODUCER = {"delivery.timeout.ms": "2147483647", "linger.ms": "0", "acks": "all"}
_BATCH_PRODUCER = {**_PRODUCER, "linger.ms": "20"}


class Stopped(Exception):
    """Raised instead of writing a batch after a stop was ordered; the batch is not committed."""


@dataclass(slots=True)
class Gate:
    """Between a micro-batch and its sink: once closed nothing is written any more."""

    closed: threading.Event = field(default_factory=threading.Event)

    def write(self, batch: DataFrame, options: Mapping[str, str]) -> None:
        """Write a batch, whole, unless a stop was ordered."""
        if self.closed.is_set():
            raise Stopped
        batch.write.format("kafka").options(**options).save()


@dataclass(slots=True)
class Query:
    """A job's query. `mode` is what it really runs in."""

    compiled: Compiled
    mode: Mode
    ledger: Ledger
    stream: StreamingQuery
    gate: Gate
    #: How many rows a predecessor had already written, by pair of partitions.
    resumed: int = 0
    #: Whether batches pass the gate, and so are written wholly or not at all.
    gated: bool = False

    @property
    def failure(self) -> str:
        """What ended it, if something did that nobody ordered."""
        error = self.stream.exception()
        return "" if error is None or self.gate.closed.is_set() else str(error)

    def stop(self) -> None:
        """Stop so that nothing is lost and nothing is written twice.

        A micro-batch that is being written is waited for; the next is not written. A real-time
        query is cancelled: what it wrote since its last boundary is found again by `resume`. So is
        what a drain wrote whose rows know their origins; it has no gate, which costs time.
        """
        self.gate.closed.set()
        if self.gated:
            until = time.monotonic() + STOP_SECONDS
            while self.stream.isActive and self.stream.status["isTriggerActive"]:
                if time.monotonic() > until:
                    break
                time.sleep(0.02)
        self.stream.stop()

    def unreported(self) -> dict[str, Any] | None:
        """Return the report of a batch that was committed and never told; after the stop only.

        Spark makes it after the commit, which a stop may not leave it time for.
        """
        done = committed(self.compiled.order.place / "checkpoint")
        known = self.ledger.progress
        if done.batch <= known.batch:
            return None
        observed = observed_in(self.stream, done.batch)
        if observed is None:
            return None
        rows = self.ledger.distance(done)
        source = {"endOffset": done.positions, "numInputRows": rows}
        return {"batchId": done.batch, "sources": [source], "observedMetrics": observed}

    def drained(self, ends: Mapping[str, Mapping[int, int]]) -> bool:
        """Whether all input up to these ends is committed."""
        at = self.ledger.progress.positions
        return all(
            at.get(name, {}).get(part, 0) >= end
            for name, parts in ends.items()
            for part, end in parts.items()
        )


def start_query(session: SparkSession, compiled: Compiled, mode: Mode) -> Query:
    """Start a job from its checkpoint; rows that its predecessor wrote are left out."""
    order = compiled.order
    checkpoint = order.place / "checkpoint"
    make_folders(checkpoint, len(compiled.sources))
    tidy(checkpoint)
    before = committed(checkpoint)
    streams = {stream.address: stream.name for stream in order.pipeline.streams.values()}
    ledger = Ledger(
        order.place / "ledger.json", carries=compiled.carries, topics=streams, only=compiled.only
    )
    ledger.begin(before)
    rows, there = finished(session, compiled, before)
    if mode is Mode.REAL_TIME and not compiled.operators.stateful:
        rows = shortened(rows)
    gate, gated = Gate(), False
    writer = rows.writeStream.queryName(order.job.name).option(
        "checkpointLocation", str(checkpoint)
    )
    if mode is Mode.REAL_TIME:
        every = int(order.job.checkpoint.every.nanoseconds // 1_000_000)
        options = sink_options(compiled, _PRODUCER)
        writer = writer.outputMode("update").format("kafka").options(**options)
        realtime: Any = writer  # the stubs do not know the trigger yet
        query = realtime.trigger(realTime=f"{every} milliseconds").start()
    else:
        options = sink_options(compiled, _BATCH_PRODUCER)
        if mode is Mode.DRAIN and compiled.carries:
            writer = writer.format("kafka").options(**options)
        else:
            gated = True
            writer = writer.foreachBatch(lambda batch, _: gate.write(batch, options))
        writer = writer.outputMode("update" if _updates(compiled) else "append")
        query = _triggered(writer, compiled, mode)
    return Query(compiled, mode, ledger, query, gate, there, gated)


def _updates(compiled: Compiled) -> bool:
    return compiled.operators.stateful and compiled.order.job.emit.value == "updates"


def _triggered(writer: Any, compiled: Compiled, mode: Mode) -> StreamingQuery:
    if mode is Mode.DRAIN:
        query: StreamingQuery = writer.trigger(availableNow=True).start()
        return query
    interval = compiled.order.job.interval
    if interval is not None:
        length = f"{interval.nanoseconds // 1_000_000} milliseconds"
        writer = writer.trigger(processingTime=length)
    started: StreamingQuery = writer.start()
    return started


def finished(session: SparkSession, compiled: Compiled, before: Committed) -> tuple[DataFrame, int]:
    """Return the rows as they go to the sink: counted, and without what is there already."""
    rows, target = compiled.rows, compiled.target
    written = {f"written:{name}": f"{STREAM} = {text(name)}" for name in target.outputs}
    if not compiled.carries:
        counted = rows.observe("out", F.expr("count(1) AS rows"), *_counts(written))
        return counted.select(*ROW), 0
    first = "" if compiled.one_to_one else f" AND {FIRST}"
    fates = {
        "used": f"{FATE} = {USED}{first}",
        "malformed": f"{FATE} = {MALFORMED}",
        "dropped": f"{FATE} = {DROPPED}{first}",
    }
    counted = rows.observe("out", *_counts(fates if compiled.one_to_one else fates | written))
    there = tail_of(session, target.job, _sinks(compiled), before)
    left = unwritten(counted, there)
    if len(target.letters) < len(target.causes):  # inputs without a stream for dead letters
        left = left.where("topic IS NOT NULL")
    return left.select(*ROW), len(there)


def _counts(conditions: Mapping[str, str]) -> list[Column]:
    """Count rows by condition; `count_if` would be planned anew at every batch boundary."""
    return [F.expr(f"count(if({what}, 1, NULL)) AS `{n}`") for n, what in conditions.items()]


def _sinks(compiled: Compiled) -> list[tuple[Stream, Mapping[str, str]]]:
    streams = {**compiled.target.outputs}
    streams |= {stream.name: stream for stream in compiled.target.letters.values()}
    brokers = compiled.order.brokers
    return [(stream, brokers[stream.site or ""]) for stream in streams.values()]


def sink_options(compiled: Compiled, producer: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the sink's producer."""
    sinks = _sinks(compiled)
    largest = max((compiled.target.largest(stream) for stream, _ in sinks), default=0)
    sizes = {
        "max.request.size": str(max(largest + 1024 * 1024, 2 * 1024 * 1024)),
        "buffer.memory": str(max(32 * 1024 * 1024, 4 * largest)),
    }
    settings = {**producer, **sizes, **sinks[0][1]}
    return {
        **{f"kafka.{name}": value for name, value in settings.items()},
        "includeHeaders": "true",
    }


def one_broker(compiled: Compiled) -> int:
    """Return how many brokers the job writes to."""
    return len({tuple(sorted(settings.items())) for _, settings in _sinks(compiled)})


def wait_for(condition: Callable[[], bool], limit: float, otherwise: str) -> None:
    """Wait until a condition holds; raises after the limit."""
    until = time.monotonic() + limit
    while not condition():
        if time.monotonic() > until:
            raise OperationFailed("too-slow", f"{otherwise} within {limit:.0f} s", transient=True)
        time.sleep(0.05)
