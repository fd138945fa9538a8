"""`map` jobs: a plain function over records, between Kafka and Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.code import Code, load_code
from millrace.engines.spark.farm import dealt
from millrace.engines.spark.fate import DROPPED, MALFORMED, USED
from millrace.engines.spark.formats import encoded, text
from millrace.engines.spark.map_worker import INSIDE_OUTPUT, MOST_RESULTS, OUTPUT, MapTask
from millrace.engines.spark.plans import Sketch
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
from millrace.engines.spark.source import BAD, ORIGIN, TIMES, Source, origin
from millrace.ports import JobOrder


def map_rows(order: JobOrder, sources: Sequence[Source], target: Target) -> DataFrame:
    """Return the rows of a `map` job: results and dead letters, each with its origin."""
    task = map_task(order, sources, target)
    keyed = [place for place, _, _, key, _ in task.outputs.values() if key]
    made = dealt(_records(sources), order.job).mapInArrow(task.__call__, OUTPUT)
    rows = origins(made, sources, keyed)
    return addressed(Sketch.on(rows), target, caused=True).frame()


def inside_rows(order: JobOrder, sources: Sequence[Source], target: Target) -> DataFrame:
    """Return the rows of a `map` job in a query of several: key, value, origin, fate and so on.

    What died before it passes; what dies in it knows where, how and why.
    """
    task = replace(map_task(order, sources, target), inside=True)
    keyed = [place for place, _, _, key, _ in task.outputs.values() if key]
    records = _inside_records(sources)
    origin = records.schema["origin"].dataType.simpleString()
    made = records.mapInArrow(task.__call__, INSIDE_OUTPUT.format(origin=origin))
    rows = _lineage(made, sources, keyed)
    counts = {
        "used": f"{FATE} = {USED} AND {FIRST}",
        "malformed": f"{FATE} = {MALFORMED}",
        "dropped": f"{FATE} = {DROPPED} AND {FIRST}",
        "rows": f"{FATE} = {USED}",
    }
    seen = [
        F.expr(f"count(if(NOT bad AND {what}, 1, NULL)) AS {name}") for name, what in counts.items()
    ]
    return rows.observe(f"map:{order.job.name}", *seen).drop("bad")


def map_task(
    order: JobOrder, sources: Sequence[Source], target: Target, code: Code | None = None
) -> MapTask:
    """Return what workers must know of a job; its code is that of `map` unless another is given."""
    job = order.job
    code = code or load_code(str(job.map), order.code, job.name)
    outputs = {}
    for place, port in enumerate(job.outputs):
        stream = order.pipeline.streams[port.stream]
        known = (place, stream.format, stream.schema, stream.key, target.largest(stream))
        outputs[port.alias or port.stream] = known
    return MapTask(
        code.function,
        code.package,
        code.lazy,
        tuple((source.stream.format, dict(source.schema)) for source in sources),
        outputs,
        job.on_error.policy,
        job.on_error.retries,
    )


def _inside_records(sources: Sequence[Source]) -> DataFrame:
    """The records of all inputs, from Kafka or from jobs before, one after another."""
    frames = []
    for place, source in enumerate(sources):
        if source.bare is not None:  # from Kafka: as they are, no parsing by Spark
            where = origin(source.stream, letters=False, lineage=True)
            key, value, bad = "key", "value", "false"
            counts = (F.expr("count(1) AS read"), F.expr("count(if(false, 1, NULL)) AS malformed"))
            rows = source.records.observe(f"in:{source.stream.name}", *counts)
        else:
            where, rows, key, bad = ORIGIN, source.base, f"{ORIGIN}.key", BAD
            value = f"if({BAD}, NULL, {encoded(source.stream, list(source.schema))})"
        columns = (f"{key} AS key", f"{value} AS value", f"{bad} AS bad", f"{where} AS origin")
        frames.append(rows.selectExpr(f"{place} AS reader", *columns))
    first, *rest = frames
    for frame in rest:
        first = first.union(frame)
    return first


def _lineage(made: DataFrame, sources: Sequence[Source], keyed: Sequence[int]) -> DataFrame:
    """What the workers gave, with what became of each record."""
    names = ", ".join(text(source.stream.name) for source in sources)
    declared = " OR ".join(f"out = {place}" for place in keyed) or "false"
    key = f"if({declared}, CAST(result_key AS BINARY), key)"
    alive = f"fate = {USED}"
    fields = {
        "stream": "origin.stream",
        "partition": "origin.partition",
        "position": "origin.position",
        "key": f"if(bad, origin.key, if({alive}, {key}, key))",
        "payload": "if(bad, origin.payload, payload)",
        "times": "origin.times",
        "index": f"if(bad, origin.index, origin.index * {MOST_RESULTS} + index)",
        "via": f"if(bad, origin.via, if({alive}, NULL, get(array({names}), reader)))",
        "fate": f"if(bad, origin.fate, if({alive}, NULL, fate))",
        "cause": "if(bad, origin.cause, cause)",
    }
    struct = ", ".join(f"'{name}', {value}" for name, value in fields.items())
    return made.selectExpr(
        f"{key} AS {KEY}",
        f"value AS {VALUE}",
        f"named_struct({struct}) AS {ORIGIN}",
        f"if(bad, coalesce(origin.fate, {MALFORMED}), fate) AS {FATE}",
        f"out AS {OUT}",
        f"if(bad, origin.index, origin.index * {MOST_RESULTS} + index) AS {INDEX}",
        f"index = 0 AS {FIRST}",
        "bad",
    )


def origins(rows: DataFrame, sources: Sequence[Source], keyed: Sequence[int]) -> DataFrame:
    """Return what the workers gave, with each row's origin put together again."""
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
