"""A job's real query over records that a test gives, in place of Kafka on both sides.

The query is compiled, counted and run as a stream as in production, so what Spark refuses in a
stream is refused here too; only its source is a file with Kafka's columns, and its sink a table.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from millrace.engines.spark.checkpoint import Committed
from millrace.engines.spark.classes import spark_archive
from millrace.engines.spark.compile import compiled
from millrace.engines.spark.errors import analysis_failure, run_failure
from millrace.engines.spark.formats import Schema
from millrace.engines.spark.ledger import Ledger
from millrace.engines.spark.prepared import Compiled
from millrace.engines.spark.query import finished
from millrace.engines.spark.session import DriverSettings, job_session, start_session
from millrace.engines.spark.source import READER
from millrace.errors import OperationFailed
from millrace.machine import Java
from millrace.model.job import Emit, Input
from millrace.model.pipeline import Pipeline
from millrace.model.stream import Format, Stream
from millrace.ports import CAUSE_HEADER, Fates, JobOrder, Record

#: How long a job may take over the records of a test, in seconds.
LIMIT = 300.0
#: The dead letters of inputs that declare no stream for them: a test wants to see them too.
LETTERS = "__dead_letters"
_TABLE = "millrace_trial"
_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)
_FIELDS: list[tuple[str, pa.DataType]] = [
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
    ("timestampType", pa.int32()),
    ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
]
_ARROW = pa.schema(_FIELDS)

Spark = SparkSession
Records = Mapping[str, Sequence[Record]]


@dataclass(frozen=True, slots=True)
class Tried:
    """What a job made of the records: what went to each topic, and the ledger."""

    results: Mapping[str, Sequence[Record]]
    #: Those that have no result, with the cause in their headers.
    letters: Sequence[Record]
    fates: Fates
    schemas: Mapping[str, Schema]


@contextmanager
def trial_session(java: Java, cache: Path) -> Iterator[Spark]:
    """Give a small Spark inside this process, with the settings of a driver."""
    with tempfile.TemporaryDirectory(prefix="millrace-spark-", ignore_cleanup_errors=True) as place:
        os.environ["JAVA_HOME"] = str(java.home)
        options = spark_archive(java, cache).options
        session = start_session(DriverSettings(Path(place), (), "local[2]", java_options=options))
        session.sparkContext.setLogLevel("ERROR")
        try:
            yield session
        finally:
            session.stop()


def tried(session: Spark, pipeline: Pipeline, job: str, code: Path, given: Records) -> Tried:
    """Run a job over records, by the names of its input streams, to their end."""
    with tempfile.TemporaryDirectory(prefix="millrace-trial-") as folder:
        place = Path(folder)
        whole = _with_letters(pipeline, job)
        order = JobOrder(
            whole, whole.jobs[job], {site: {} for site in whole.sites}, place / "job", code
        )
        order.place.mkdir()
        own = job_session(session, order.job, READER)
        own.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
        _write(place, whole, order.job.reads, given)
        query = compiled(own, order, _known(own, order, place), reader=_reader(place))
        ended = _run(own, query)
        return _tried(own, query, ended, sum(len(records) for records in given.values()))


def _with_letters(pipeline: Pipeline, job: str) -> Pipeline:
    """The pipeline with a stream for the dead letters of each input of the job."""
    reads = pipeline.jobs[job].reads
    streams = {
        name: replace(stream, dead_letters=stream.dead_letters or LETTERS)
        if name in reads
        else stream
        for name, stream in pipeline.streams.items()
    }
    site = pipeline.jobs[job].site
    streams[LETTERS] = Stream(LETTERS, site=site, format=Format.RAW)
    return replace(pipeline, streams=streams)


def _write(place: Path, pipeline: Pipeline, names: Sequence[str], given: Records) -> None:
    for name in names:
        folder = place / "streams" / name
        folder.mkdir(parents=True, exist_ok=True)
        rows = [_row(pipeline.streams[name], record) for record in given.get(name, ())]
        if rows:
            pq.write_table(pa.Table.from_pylist(rows, schema=_ARROW), folder / "records.parquet")


def _row(stream: Stream, record: Record) -> dict[str, Any]:
    """A record as Kafka's source gives it."""
    return {
        "key": record.key,
        "value": record.value,
        "topic": stream.address,
        "partition": record.partition or 0,
        "offset": record.position,
        "timestamp": datetime.fromtimestamp((record.time or 0) / 1000, UTC),
        "timestampType": 0,
        "headers": [{"key": k, "value": v} for k, v in record.headers] or None,
    }


def _reader(place: Path) -> Callable[..., DataFrame]:
    def read(
        session: SparkSession, stream: Stream, _b: object, _j: object, port: Input, **_: object
    ) -> DataFrame:
        folder = place / "streams" / stream.name
        folder.mkdir(parents=True, exist_ok=True)
        start: Any = session.read if port.table else session.readStream
        records: DataFrame = start.schema(_COLUMNS).parquet(str(folder))
        return records

    return read


def _known(session: SparkSession, order: JobOrder, place: Path) -> dict[str, Schema]:
    """The schemas of inputs that only the jobs before this one know."""
    known: dict[str, Schema] = {}
    for name in order.job.reads:
        stream = order.pipeline.streams[name]
        if stream.schema is not None or stream.format in (Format.RAW, Format.TEXT):
            continue
        writers = [job for job in order.pipeline.jobs.values() if name in job.writes]
        for writer in writers[:1]:
            before = replace(order, job=writer)
            made = compiled(session, before, _known(session, before, place), reader=_reader(place))
            known[name] = made.schemas[name]
    return known


def _run(session: SparkSession, query: Compiled) -> StreamingQuery:
    """Run the query over all there is, into a table."""
    job = query.order.job
    updates = query.operators.stateful and job.emit is Emit.UPDATES
    try:
        rows, _ = finished(session, query, Committed())
        started: StreamingQuery = (
            rows.writeStream.queryName(_TABLE)
            .format("memory")
            .option("checkpointLocation", str(query.order.place / "checkpoint"))
            .outputMode("update" if updates else "append")
            .trigger(availableNow=True)
            .start()
        )
    except Exception as error:
        raise analysis_failure(job.name, error) from error
    try:
        if not started.awaitTermination(int(LIMIT)):
            raise OperationFailed("too-slow", f"job {job.name} was not done within {LIMIT:.0f} s")
    except StreamingQueryException as error:
        raise run_failure(job.name, str(error)) from error
    finally:
        started.stop()
    return started


def _tried(session: SparkSession, query: Compiled, ended: StreamingQuery, given: int) -> Tried:
    names = {stream.address: name for name, stream in query.target.outputs.items()}
    results: dict[str, list[Record]] = {name: [] for name in query.target.outputs}
    letters = []
    for row in session.table(_TABLE).collect():
        headers = tuple((header["key"], bytes(header["value"])) for header in row["headers"])
        value = None if row["value"] is None else bytes(row["value"])
        key = None if row["key"] is None else bytes(row["key"])
        record = Record(value, key, headers, row["partition"])
        if record.header(CAUSE_HEADER) is not None:
            letters.append(record)
        else:
            results[names[row["topic"]]].append(record)
    return Tried(results, letters, _fates(query, ended, given), query.schemas)


def _fates(query: Compiled, ended: StreamingQuery, given: int) -> Fates:
    """The ledger; Spark counts a file's rows where Kafka's positions would tell them."""
    ledger = Ledger(query.order.place / "ledger.json", query.shares[0], {})
    for progress in ended.recentProgress:
        event = json.loads(progress.json) if hasattr(progress, "json") else dict(progress)
        first = ledger.progress.batch < 0
        ledger.add({**event, "sources": [{"numInputRows": given if first else 0}]}, time.time())
    return ledger.progress.fates
