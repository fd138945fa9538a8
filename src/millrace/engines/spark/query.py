"""A job that runs: its query, how it is stopped, and what is known of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.streaming.query import StreamingQuery

from millrace.engines.spark import resume
from millrace.engines.spark.checkpoint import (
    Committed,
    committed,
    make_folders,
    name_query,
    tidy,
)
from millrace.engines.spark.farm import gathered, places
from millrace.engines.spark.fate import DROPPED, MALFORMED, USED
from millrace.engines.spark.formats import text
from millrace.engines.spark.java import scala_object
from millrace.engines.spark.kept_fields import write_fields
from millrace.engines.spark.ledger import Ledger, offsets
from millrace.engines.spark.observed import observed_in
from millrace.engines.spark.once import Once
from millrace.engines.spark.outside.bridge import outside
from millrace.engines.spark.outside.carried import by_spark
from millrace.engines.spark.outside.feed import ended
from millrace.engines.spark.outside.sink import Sink, sink_of
from millrace.engines.spark.planned import shortened
from millrace.engines.spark.plans import Sketch
from millrace.engines.spark.prepared import Compiled
from millrace.engines.spark.sink import FATE, FIRST, INDEX, ROW, STREAM, Target
from millrace.engines.spark.source import ORIGIN
from millrace.engines.spark.templates import frame_by_template
from millrace.engines.spark.writing import KafkaWriting, Writing, sinks, writings_of
from millrace.errors import OperationFailed
from millrace.model.job import Mode
from millrace.model.stream import Stream
from millrace.ports import LogOf

#: How long a planned stop waits for a batch that is being written.
STOP_SECONDS = 7.0
DRAIN_SECONDS = 600.0
#: How often a query runs whose windows close by the clock.
TICKS = "500 milliseconds"
#: How often a source outside is asked for more.
LOOKS = "100 milliseconds"
#: Writers keep a record until the broker took it: one that gave up could leave a gap.
_PRODUCER = {"delivery.timeout.ms": "2147483647", "linger.ms": "0", "acks": "all"}
_BATCH_PRODUCER = {**_PRODUCER, "linger.ms": "20"}


class Stopped(Exception):
    """Raised instead of writing a batch after a stop was ordered; the batch is not committed."""


@dataclass(slots=True)
class Gate:
    """Between a micro-batch and its sink: once closed nothing is written any more."""

    closed: threading.Event = field(default_factory=threading.Event)
    #: Whether a batch has come here.
    reached: threading.Event = field(default_factory=threading.Event)

    def _pass(self) -> None:
        self.reached.set()
        if self.closed.is_set():
            raise Stopped

    def write(self, batch: DataFrame, writings: Sequence[Writing]) -> None:
        """Write a batch, whole, unless a stop was ordered.

        What goes to several brokers is worked out once.
        """
        self._pass()
        if len(writings) == 1:
            writings[0].write(batch)
            return
        batch.persist()
        try:
            for writing in writings:
                writing.write(batch.where(F.col("topic").isin(*writing.topics)))
        finally:
            batch.unpersist()

    def commit(self, once: Once, batch: DataFrame, number: int) -> None:
        """Write a batch in a transaction, unless a stop was ordered."""
        self._pass()
        once.write(batch, number)

    def send(self, sink: Sink, batch: DataFrame, number: int, writings: Sequence[Writing]) -> None:
        """Give a batch to what is outside, then its dead letters to Kafka; both, or again."""
        self._pass()
        batch.persist()
        try:
            sink.take(batch, number)
            for writing in writings:
                writing.write(batch.where(F.col("topic").isin(*writing.topics)))
        finally:
            batch.unpersist()


@dataclass(slots=True)
class Query:
    """A job's query. `mode` is what it really runs in."""

    compiled: Compiled
    mode: Mode
    #: By job, those of the query in the direction of the data.
    ledgers: Mapping[str, Ledger]
    stream: StreamingQuery
    gate: Gate
    #: Spark's own name for this run.
    run: str = ""
    #: How many rows a predecessor had already written, by pair of partitions.
    resumed: int = 0
    #: Whether batches pass the gate, and so are written wholly or not at all.
    gated: bool = False
    #: Whether its sources had ended before it was started.
    over: bool = False

    @property
    def failure(self) -> str:
        """What ended it, if something did that nobody ordered."""
        if self.gate.closed.is_set() or not (error := self.stream._jsq.exception()).isDefined():
            return ""
        # As listeners are told: with all causes, and without the plan.
        cause = error.get().getCause()
        return str(scala_object("org.apache.spark.util.Utils").exceptionString(cause))

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
        if all(done.batch <= ledger.progress.batch for ledger in self.ledgers.values()):
            return None
        observed = observed_in(self.stream, done.batch)
        if observed is None:
            return None
        rows = sum(ledger.distance(done) for ledger in self.ledgers.values())
        source = {"endOffset": done.positions, "numInputRows": rows}
        return {"batchId": done.batch, "sources": [source], "observedMetrics": observed}

    def add(self, event: Mapping[str, Any], now: float) -> None:
        """Add a batch that Spark committed to the ledgers of all jobs."""
        for ledger in self.ledgers.values():
            ledger.add(event, now)

    def ends(self, event: Mapping[str, Any]) -> bool:
        """Whether nothing comes after a batch: all of its sources say so."""
        found: dict[str, Any] = {}
        for source in event.get("sources", []):
            found |= offsets(source.get("endOffset"))
        return _over(self.compiled, found)

    def drained(self, ends: Mapping[str, Mapping[int, int]]) -> bool:
        """Whether all input up to these ends is committed."""
        at: dict[str, Mapping[int, int]] = {}
        for ledger in self.ledgers.values():
            at.update(ledger.progress.positions)
        return all(
            at.get(name, {}).get(part, 0) >= end
            for name, parts in ends.items()
            for part, end in parts.items()
        )


def start_query(
    session: SparkSession,
    compiled: Compiled,
    mode: Mode,
    once: Once | None = None,
    log: LogOf | None = None,
) -> Query:
    """Start a job from its checkpoint; rows that its predecessor wrote are left out.

    With `once` its batches are written by that; with `log` brokers are asked without Spark what
    the predecessor wrote.
    """
    order = compiled.order
    checkpoint = order.place / "checkpoint"
    make_folders(checkpoint, len(compiled.sources))
    tidy(checkpoint)
    before = committed(checkpoint)
    name_query(checkpoint)
    ledgers = _ledgers(compiled)
    for ledger in ledgers.values():
        ledger.begin(before)
    rows, there = finished(session, compiled, before, log)
    if mode is Mode.REAL_TIME and len(order.jobs) > 1 and not compiled.operators.stateful:
        rows = shortened(rows)
    if compiled.fields is not None:
        write_fields(order.place, compiled.fields)
    gate = Gate()
    writer = rows.writeStream.queryName(order.job.name).option(
        "checkpointLocation", str(checkpoint)
    )
    gated = False
    if mode is Mode.REAL_TIME:
        every = int(order.job.checkpoint.every.nanoseconds // 1_000_000)
        writing = _only(writings_of(compiled, _PRODUCER))
        writer = writer.outputMode("update").format("kafka").options(**writing.options)
        realtime: Any = writer  # the stubs do not know the trigger yet
        query = realtime.trigger(realTime=f"{every} milliseconds").start()
    else:
        each = _each_batch(compiled, mode, gate, once)
        if gated := each is not None:
            writer = writer.foreachBatch(each)
        else:
            writing = _only(writings_of(compiled, _BATCH_PRODUCER))
            writer = writer.format("kafka").options(**writing.options)
        writer = writer.outputMode("update" if _updates(compiled) else "append")
        query = _triggered(writer, compiled, mode)
    over = _over(compiled, before.positions)
    run = str(query.runId)
    return Query(compiled, mode, ledgers, query, gate, run, there, gated, over)


def _each_batch(
    compiled: Compiled, mode: Mode, gate: Gate, once: Once | None
) -> Callable[[DataFrame, int], None] | None:
    """What writes each batch, so that a stop can wait for it; None where Spark itself may."""
    writings = writings_of(compiled, _BATCH_PRODUCER)
    if (sink := sink_of(compiled.order, compiled.schemas)) is not None:
        return lambda batch, number: gate.send(sink, batch, number, writings)
    if once is not None:
        return lambda batch, number: gate.commit(once, ordered(batch, compiled), number)
    alone = len(writings) == 1 and isinstance(writings[0], KafkaWriting)
    if mode is Mode.DRAIN and compiled.resumes and not compiled.gathers and alone:
        return None
    return lambda batch, _: gate.write(ordered(batch, compiled), writings)


def _only(writings: Sequence[Writing]) -> KafkaWriting:
    """The one Kafka that Spark writes to by itself."""
    [writing] = writings
    if not isinstance(writing, KafkaWriting):
        raise TypeError(writing)
    return writing


def _over(compiled: Compiled, positions: Mapping[str, Any]) -> bool:
    """Whether nothing comes after these positions."""
    names = [source.stream.name for source in compiled.sources]
    return bool(names) and all(ended(positions, name) for name in names)


def _ledgers(compiled: Compiled) -> dict[str, Ledger]:
    """The ledger of each job of a query, all of them beside its checkpoint."""
    order = compiled.order
    topics = {stream.address: stream.name for stream in order.pipeline.streams.values()}
    names = {job.name: f"ledger-{job.name}.json" for job in order.jobs}
    names[order.job.name] = "ledger.json"
    return {
        job.name: Ledger(order.place / names[job.name], share, topics)
        for job, share in zip(order.jobs, compiled.shares, strict=True)
    }


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
    elif any(job.ticks for job in compiled.order.jobs):  # else Spark would run empty batches only
        writer = writer.trigger(processingTime=TICKS)
    elif any(_looked_for(compiled, source.stream) for source in compiled.sources):
        writer = writer.trigger(processingTime=LOOKS)
    started: StreamingQuery = writer.start()
    return started


def _looked_for(compiled: Compiled, stream: Stream) -> bool:
    """Whether Python is asked for what is new in a stream."""
    return outside(stream.name) or not by_spark(compiled.order, stream)


def finished(
    session: SparkSession, compiled: Compiled, before: Committed, log: LogOf | None = None
) -> tuple[DataFrame, int]:
    """Return the rows as they go to the sink: counted, and without what is there already."""
    rows, target = compiled.rows, compiled.target
    written = {f"written:{name}": f"{STREAM} = {text(name)}" for name in target.outputs}
    if len(compiled.order.jobs) > 1 and compiled.carries:
        written |= {
            f"dropped:{name}": f"{FATE} = {DROPPED} AND {_here(target, place)}"
            for place, name in enumerate(target.outputs)
        }
    if not compiled.carries:
        counted = Sketch.on(rows).observe("out", "count(1) AS rows", *_counts(written))
        return counted.select(*ROW).frame(), 0
    first = "" if compiled.one_to_one else f" AND {FIRST}"
    fates = {
        "used": f"{FATE} = {USED}{first}",
        "malformed": f"{FATE} = {MALFORMED}",
        "dropped": f"{FATE} = {DROPPED}{first}",
    }
    counted = Sketch.on(rows).observe("out", *_counts(fates if compiled.only else fates | written))
    known = before if compiled.resumes else Committed()
    there = resume.tail_of(session, target.job, _logs(compiled, log), known)
    alone = _only_source(compiled)
    left = resume.unwritten(counted, there, alone=alone)
    if len(target.letters) < len(target.causes):  # inputs without a stream for dead letters
        left = left.where("topic IS NOT NULL")
    turns = places(compiled.sources) if compiled.gathers else ()
    done = left.select(*ROW, *turns)
    # Else what is there, or counts by the names of streams, are written out: no other has the same.
    alike = compiled.only is not None and (not there or alone is not None)
    return frame_by_template(done) if alike else done.frame(), len(there)


def _only_source(compiled: Compiled) -> str | None:
    """The stream that all rows come from, one of each record, where they go to one partition.

    Dead letters that are in Kafka say nothing of results that went elsewhere.
    """
    target, topics = compiled.target, [stream for stream, _ in sinks(compiled)]
    written = {*target.outputs, *(stream.name for stream in target.letters.values())}
    one = written == {it.name for it in topics} and sum(it.partitions for it in topics) == 1
    alone = one and compiled.only is not None and len(compiled.sources) == 1
    return compiled.sources[0].stream.name if alone else None


def ordered(batch: DataFrame, compiled: Compiled) -> DataFrame:
    """Return a batch as it is written."""
    return gathered(batch, compiled.sources) if compiled.gathers else batch


def _here(target: Target, place: int) -> str:
    """Whether a row that is dropped was so for one of several outputs, and not in a job before."""
    return f"{ORIGIN}.fate IS NULL" if target.lineage else f"{INDEX} = {place}"


def _counts(conditions: Mapping[str, str]) -> list[str]:
    """Count rows by condition; `count_if` would be planned anew at every batch boundary."""
    return [f"count(if({what}, 1, NULL)) AS `{n}`" for n, what in conditions.items()]


def _logs(compiled: Compiled, log: LogOf | None) -> list[resume.Sink]:
    """What a job writes, with the logs of its brokers where these can be had."""
    writers = compiled.order.writers
    return [
        resume.Sink(
            stream,
            settings,
            log(writers[stream.site or ""]) if log and stream.site in writers else None,
        )
        for stream, settings in sinks(compiled)
    ]


def wait_for(condition: Callable[[], bool], limit: float, otherwise: str) -> None:
    """Wait until a condition holds; raises after the limit."""
    until = time.monotonic() + limit
    while not condition():
        if time.monotonic() > until:
            raise OperationFailed("too-slow", f"{otherwise} within {limit:.0f} s", transient=True)
        time.sleep(0.05)
