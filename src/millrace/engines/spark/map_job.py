"""`map` jobs: a plain function over records, between Kafka and Kafka."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from millrace.engines.spark.code import load_code
from millrace.engines.spark.formats import text
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
from millrace.engines.spark.source import ORIGIN, TIMES, Source
from millrace.ports import JobOrder


def map_rows(order: JobOrder, sources: Sequence[Source], target: Target) -> DataFrame:
    """Return the rows of a `map` job: results and dead letters, each with its origin."""
    job = order.job
    code = load_code(str(job.map), order.code, job.name)
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
        code.function,
        code.package,
        code.lazy,
        tuple((source.stream.format, dict(source.schema)) for source in sources),
        outputs,
        job.on_error.policy,
        job.on_error.retries,
    )
    keyed = [place for place, _, _, key, _ in outputs.values() if key]
    records = _records(sources)
    rows = _origins(records.mapInArrow(task.__call__, OUTPUT), sources, keyed)
    return addressed(rows, target, caused=True)


def _origins(rows: DataFrame, sources: Sequence[Source], keyed: Sequence[int]) -> DataFrame:
    """What the workers gave, with each row's origin put together again."""
    names = ", ".join(text(source.stream.name) for source in sources)
    declared = " OR ".join(f"out = {place}" for place in keyed) or "false"
    return rows.selectExpr(
        f"if({declared}, CAST(result_key AS BINARY), key) AS {KEY}",
        f"value AS {VALUE}",
        f"named_struct('stream', get(array({names}), input), 'partition', partition, "
        f"'position', position, 'key', key, 'payload', payload, 'times', times) AS {ORIGIN}",
        f"fate AS {FATE}",
        f"cause AS {CAUSE}",
        f"out AS {OUT}",
        f"index AS {INDEX}",
        f"index = 0 AS {FIRST}",
    )


def _records(sources: Sequence[Source]) -> DataFrame:
    """The records of all inputs as they are, one after another; no parsing by Spark."""
    columns = ("partition", "offset AS position", "key", "value", f"{TIMES} AS times")
    frames = [
        source.records.selectExpr(f"{place} AS input", *columns)
        for place, source in enumerate(sources)
    ]
    first, *rest = frames
    for frame in rest:
        first = first.union(frame)
    return first
