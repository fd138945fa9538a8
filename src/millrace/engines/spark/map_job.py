"""`map` jobs: a plain function over records, between Kafka and Kafka."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.code import load_function
from millrace.engines.spark.map_worker import OUTPUT, MapTask
from millrace.engines.spark.sink import (
    CAUSE,
    FATE,
    FIRST,
    INDEX,
    KEY,
    OUT,
    VALUE,
    Target,
    addressed,
)
from millrace.engines.spark.source import ORIGIN, Source
from millrace.ports import JobOrder


def map_rows(order: JobOrder, sources: Sequence[Source], target: Target) -> DataFrame:
    """Return the rows of a `map` job: results and dead letters, each with its origin."""
    job = order.job
    function = load_function(str(job.map), order.code, job.name)
    outputs = {
        port.alias or port.stream: (
            place,
            target.outputs[port.stream].format,
            target.outputs[port.stream].schema,
            target.outputs[port.stream].key,
            target.largest(target.outputs[port.stream]),
        )
        for place, port in enumerate(job.outputs)
    }
    task = MapTask(
        function,
        tuple((source.stream.format, dict(source.schema)) for source in sources),
        outputs,
        job.on_error.policy,
        job.on_error.retries,
    )
    keyed = [place for place, _, _, key, _ in outputs.values() if key]
    records = _records(sources)
    rows = records.mapInArrow(task.__call__, OUTPUT)
    names = F.array(*(F.lit(source.stream.name) for source in sources))
    origin = F.struct(
        F.get(names, F.col("input")).alias("stream"),
        "partition",
        "position",
        "key",
        "payload",
        "times",
    )
    return addressed(
        rows.select(
            F.when(F.col("out").isin(keyed), F.col("result_key").cast("binary"))
            .otherwise(F.col("key"))
            .alias(KEY),
            F.col("value").alias(VALUE),
            origin.alias(ORIGIN),
            F.col("fate").alias(FATE),
            F.col("cause").alias(CAUSE),
            F.col("out").alias(OUT),
            F.col("index").alias(INDEX),
            (F.col("index") == 0).alias(FIRST),
        ),
        target,
    )


def _records(sources: Sequence[Source]) -> DataFrame:
    """The records of all inputs as they are, one after another; no parsing by Spark."""
    frames = [
        source.records.select(
            F.lit(place).alias("input"),
            "partition",
            F.col("offset").alias("position"),
            "key",
            "value",
            source.times.alias("times"),
        )
        for place, source in enumerate(sources)
    ]
    first, *rest = frames
    for frame in rest:
        first = first.union(frame)
    return first
