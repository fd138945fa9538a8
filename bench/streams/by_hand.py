"""The baseline: the work of a Millrace job as one writes it by hand in PySpark.

It uses nothing of Millrace. It is a driver process: `python by_hand.py --conf NAME=VALUE ...` takes
orders as lines of JSON on its input (`start`, `start all`, `stop`, `state`, `end`) and answers each
with a line.
Every record that comes out tells where it came from, malformed ones go to a stream of dead letters
with cause and payload, and the counts are observed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.streaming.query import StreamingQuery

SCHEMA = "id long, speed double, lat double, lon double, ts long, road string"
TIMED = "id long, speed double, at timestamp, road string"
SAMPLED = 128
MADE = (
    "value binary, cause string, partition int, offset long, key binary, payload binary, "
    "times string"
)


def header(name: str, value: Column) -> Column:
    """Return a header of Kafka's sink."""
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))


def times() -> Column:
    """Return the times of the hops so far; a record from outside gets them with 1 of 128."""
    first, second = F.get("headers", F.lit(0)), F.get("headers", F.lit(1))
    own = F.unix_millis("timestamp").cast("string")
    carried = F.when(
        second["key"] == "times", F.concat_ws(",", second["value"].cast("string"), own)
    )
    outside = F.coalesce(first["key"] != "origin", F.lit(col=True))
    return F.coalesce(carried, F.when(outside & (F.col("offset") % SAMPLED == 0), own))


def rows(made: DataFrame, order: dict[str, Any]) -> DataFrame:
    """Return the sink's rows of (value, cause, payload, key, partition, offset, times)."""
    bad = F.col("cause").isNotNull()
    parts = [F.lit(order["name"]), F.lit(order["source"]), F.col("partition"), F.col("offset")]
    origin = header("origin", F.concat_ws(" ", *(p.cast("string") for p in parts), F.lit("0")))
    headers = (
        F.when(bad, F.array(origin, header("cause", F.col("cause"))))
        .when(F.col("times").isNull(), F.array(origin))
        .otherwise(F.array(origin, header("times", F.col("times"))))
    )
    by_key = F.pmod(F.crc32("key"), F.lit(order["partitions"]))
    by_turn = F.pmod(F.col("offset"), F.lit(order["partitions"]))
    addressed = made.select(
        F.when(bad, F.lit(order["dead"])).otherwise(F.lit(order["sink"])).alias("topic"),
        "key",
        F.when(bad, F.col("payload")).otherwise(F.col("value")).alias("value"),
        headers.alias("headers"),
        F.coalesce(by_key, by_turn).cast("int").alias("partition"),
        bad.alias("bad"),
    )
    counts = (F.count_if(~F.col("bad")).alias("used"), F.count_if("bad").alias("malformed"))
    return addressed.observe("counts", *counts).drop("bad")


def by_sql(records: DataFrame) -> DataFrame:
    """Parse, filter and project with Spark's own expressions."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "corrupt"}
    parsed = F.from_json(F.col("value").cast("string"), f"{SCHEMA}, corrupt string", options)
    read = records.withColumn("r", parsed)
    bad = F.col("r").isNull() | F.col("r.corrupt").isNotNull()
    result = F.to_json(F.struct("r.id", "r.speed", "r.road"), {"ignoreNullFields": "false"})
    return read.where(bad | (F.col("r.speed") > 50)).select(
        F.when(~bad, result.cast("binary")).alias("value"),
        F.when(bad, F.lit(f"not json of ({SCHEMA})")).alias("cause"),
        F.when(bad, F.col("value")).alias("payload"),
        "key",
        "partition",
        "offset",
        times().alias("times"),
    )


def by_passing(records: DataFrame) -> DataFrame:
    """Pass records on as they are."""
    nothing = F.lit(None)
    return records.select(
        "value",
        nothing.cast("string").alias("cause"),
        nothing.cast("binary").alias("payload"),
        "key",
        "partition",
        "offset",
        times().alias("times"),
    )


def by_arrow(records: DataFrame) -> DataFrame:
    """Parse, filter and project in Python, Arrow batch by Arrow batch."""
    kept = records.select("partition", "offset", "key", "value", times().alias("times"))
    return kept.mapInArrow(mapped, MADE)


def mapped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the results and the dead letters of batches."""
    names = [part.split()[0] for part in MADE.split(",")]
    for batch in batches:
        at: list[int] = []
        values: list[bytes | None] = []
        causes: list[str | None] = []
        payloads: list[bytes | None] = []
        for index, value in enumerate(batch.column(3).to_pylist()):
            try:
                r: dict[str, Any] = json.loads(value or b"")
                if not r["speed"] > 50:
                    continue
                out = {"id": r["id"], "speed": r["speed"], "road": r["road"]}
                made, cause, payload = json.dumps(out).encode(), None, None
            except (ValueError, TypeError, KeyError) as error:
                made, cause, payload = None, f"{type(error).__name__}: {error}", value
            at.append(index)
            values.append(made)
            causes.append(cause)
            payloads.append(payload)
        taken = batch.take(pa.array(at, pa.int32()))
        columns: list[pa.Array[Any]] = [
            pa.array(values, pa.binary()),
            pa.array(causes, pa.string()),
        ]
        columns += [taken.column(0), taken.column(1), taken.column(2)]
        columns += [pa.array(payloads, pa.binary()), taken.column(4)]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def bare(records: DataFrame, order: dict[str, Any]) -> DataFrame:
    """Pass records on and do nothing else: no origins, no counts, no dead letters."""
    return records.select(F.lit(order["sink"]).alias("topic"), "key", "value")


WORK: dict[str, Callable[[DataFrame], DataFrame]] = {
    "sql": by_sql,
    "arrow": by_arrow,
    "pass": by_passing,
}


def by_windows(records: DataFrame, order: dict[str, Any]) -> DataFrame:
    """Count the records of each road in windows of ten seconds; the sink's rows at once."""
    parsed = F.from_json(F.col("value").cast("string"), TIMED)
    read = records.select(parsed.alias("r")).select("r.*").withWatermark("at", "0 seconds")
    sums = [F.count("*").alias("n"), F.max("id").alias("id")][: 1 + (order["kind"] == "updates")]
    counted = read.groupBy(F.window("at", "10 seconds"), "road").agg(*sums)
    ends = [F.col(f"window.{name}").alias(name) for name in ("start", "end")]
    result = F.to_json(F.struct(*ends, *(c for c in counted.columns if c != "window")))
    key = F.lit(None).cast("binary").alias("key")
    rows = counted.select(F.lit(order["sink"]).alias("topic"), key, result.alias("value"))
    return rows.observe("counts", F.count("*").alias("used"))


def start(session: SparkSession, order: dict[str, Any]) -> StreamingQuery:
    """Start a query from Kafka to Kafka, in real-time mode or for what is there now."""
    broker = {"kafka.bootstrap.servers": order["boot"]}
    reader = (
        session.readStream.format("kafka").options(**broker).option("subscribe", order["source"])
    )
    records = reader.options(startingOffsets="earliest", includeHeaders="true").load()
    real_time = order["mode"] == "real-time"
    if order["kind"] in ("windows", "updates"):
        sunk = by_windows(records, order)
    elif order["kind"] == "bare":
        sunk = bare(records, order)
    else:
        sunk = rows(WORK[order["kind"]](records), order)
    writer = sunk.writeStream.queryName(order["name"]).format("kafka").options(**broker)
    writer = writer.options(
        **{
            "checkpointLocation": order["checkpoint"],
            "includeHeaders": "true",
            "kafka.acks": "all",
            "kafka.linger.ms": "0" if real_time else "20",
        }
    )
    if real_time:
        update: Any = writer.outputMode("update")  # the stubs do not know the trigger yet
        query: StreamingQuery = update.trigger(realTime=f"{order['every']} seconds").start()
        return query
    return writer.trigger(availableNow=True).start()


class Driver:
    """Answers orders; a query has a name."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._queries: dict[str, StreamingQuery] = {}

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        """Do what an order says."""
        todo: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "start": self._start,
            "start all": self._start_all,
            "state": self._state,
            "stop": self._stop,
        }
        try:
            return todo[order["do"]](order)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def _start(self, order: dict[str, Any]) -> dict[str, Any]:
        session = self._session.newSession() if order.get("own_session") else self._session
        self._queries[order["name"]] = start(session, order)
        return {"started": order["name"]}

    def _start_all(self, order: dict[str, Any]) -> dict[str, Any]:
        """Start queries side by side."""
        with ThreadPoolExecutor(order["hands"]) as pool:
            list(pool.map(self._start, order["orders"]))
        return {"started": len(order["orders"])}

    def _state(self, order: dict[str, Any]) -> dict[str, Any]:
        query = self._queries[order["name"]]
        error = query.exception()
        return {"active": query.isActive, "failed": str(error) if error else ""}

    def _stop(self, order: dict[str, Any]) -> dict[str, Any]:
        query = self._queries.pop(order["name"])
        progress = query.lastProgress
        query.stop()
        return {"batch": progress["batchId"] if progress else None}


def main() -> None:
    """Start Spark, say so, and answer until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--master", required=True)
    parser.add_argument("--conf", action="append", default=[])
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master(arguments.master)
    for setting in arguments.conf:
        name, _, value = setting.partition("=")
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    driver = Driver(session)
    print(json.dumps({"ready": os.getpid()}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "end":
            break
        print(json.dumps(driver.answer(order)), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
