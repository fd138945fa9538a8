"""A job's results as rows for Kafka's sink: topic, key, value, headers, partition.

The partition is chosen here, by the same rule as librdkafka's (crc32 of the key), and each row's
header names its origin. So a successor that finds the last origin in each partition of the sink
knows what is there already (see `resume`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.formats import encoded
from millrace.engines.spark.source import BAD, ORIGIN, ORIGIN_HEADER, TIMES_HEADER
from millrace.model.stream import Stream

CAUSE_HEADER = "millrace-cause"
#: What Kafka takes without a word about size, less what a batch needs beside the value.
DEFAULT_LARGEST = 1_000_000
#: Columns of a row on its way to the sink, beside Kafka's own.
KEY, VALUE, CAUSE, OUT = "__key", "__value", "__cause", "__out"
FATE, INDEX, FIRST, STREAM = "__fate", "__index", "__first", "__stream"
USED, MALFORMED, DROPPED = 0, 1, 2
ROW = ("topic", "key", "value", "headers", "partition")


@dataclass(frozen=True, slots=True)
class Target:
    """Where results go, and where dead letters of each input go."""

    job: str
    outputs: Mapping[str, Stream]
    #: By the name of the input: where its dead letters go, and why its records are malformed.
    letters: Mapping[str, Stream]
    causes: Mapping[str, str]

    def largest(self, stream: Stream) -> int:
        """The greatest value that the stream takes, in bytes."""
        return stream.max_record.bytes if stream.max_record is not None else DEFAULT_LARGEST


def staged(frame: DataFrame, columns: Sequence[str], output: Stream) -> DataFrame:
    """Return key and value of a query's results, with the origin of each and if it is malformed."""
    return frame.select(
        F.when(~F.col(BAD), _key(output, columns)).alias(KEY),
        F.when(~F.col(BAD), encoded(output, columns)).alias(VALUE),
        ORIGIN,
        BAD,
    )


def single(rows: DataFrame) -> DataFrame:
    """Return staged rows of a job with one output, with their place among its outputs."""
    place = F.lit(0)
    return rows.select("*", place.alias(OUT), place.alias(INDEX), F.lit(col=True).alias(FIRST))


def routed(rows: DataFrame, target: Target) -> DataFrame:
    """Return staged rows as rows of the sink: results and dead letters."""
    limits = [target.largest(stream) for stream in target.outputs.values()]
    limit = _chosen(F.col(OUT), dict(enumerate(limits)), "int")
    fate = (
        F.when(F.col(BAD), F.lit(MALFORMED))
        .when(F.length(VALUE) > limit, F.lit(DROPPED))
        .otherwise(F.lit(USED))
    )
    fated = rows.select(KEY, VALUE, ORIGIN, fate.alias(FATE), _no_cause(), OUT, INDEX, FIRST)
    return addressed(fated, target)


def letter_rows(base: DataFrame, target: Target) -> DataFrame:
    """Return the dead letters of an input whose query loses origins."""
    empty = F.lit(None).cast("binary")
    rows = base.where(BAD).select(
        empty.alias(KEY),
        empty.alias(VALUE),
        ORIGIN,
        F.lit(MALFORMED).alias(FATE),
        _no_cause(),
        F.lit(0).alias(OUT),
        F.lit(0).alias(INDEX),
        F.lit(col=True).alias(FIRST),
    )
    return addressed(rows, target)


def plain_rows(
    frame: DataFrame, columns: Sequence[str], output: Stream, target: Target
) -> DataFrame:
    """Return the results of a query that loses origins: only the job is in their header."""
    key = declared_key(output, columns)
    count = F.lit(output.partitions)
    header = F.array(_header(ORIGIN_HEADER, F.lit(target.job)))
    return frame.select(
        F.lit(output.address).alias("topic"),
        key.alias("key"),
        encoded(output, columns).alias("value"),
        header.alias("headers"),
        F.pmod(F.crc32(key), count).cast("int").alias("partition"),
        F.lit(output.name).alias(STREAM),
    )


def _no_cause() -> Column:
    return F.lit(None).cast("string").alias(CAUSE)


def addressed(rows: DataFrame, target: Target) -> DataFrame:
    """Make rows of the sink of rows with key, value, origin, fate, cause, output, index, first."""
    used = F.col(FATE) == F.lit(USED)
    outputs = list(target.outputs.values())
    letters = {name: target.letters.get(name) for name in target.causes}
    by_origin = f"{ORIGIN}.stream"

    def of_letter(values: Mapping[str, str | int | None], kind: str) -> Column:
        return _chosen(F.col(by_origin), values, kind)

    def of_output(values: Sequence[str | int], kind: str) -> Column:
        return _chosen(F.col(OUT), dict(enumerate(values)), kind)

    topic = F.when(used, of_output([s.address for s in outputs], "string")).otherwise(
        of_letter({name: s.address if s else None for name, s in letters.items()}, "string")
    )
    count = F.when(used, of_output([s.partitions for s in outputs], "int")).otherwise(
        of_letter({name: s.partitions if s else 1 for name, s in letters.items()}, "int")
    )
    key = F.when(used, F.col(KEY)).otherwise(F.col(f"{ORIGIN}.key"))
    payload = F.col(f"{ORIGIN}.payload")
    cause = F.coalesce(
        F.col(CAUSE),
        F.when(F.col(FATE) == MALFORMED, of_letter(target.causes, "string")),
        F.concat(
            F.lit("the result is larger than its stream takes: "),
            F.length(VALUE).cast("string"),
            F.lit(" bytes"),
        ),
    )
    return rows.select(
        topic.alias("topic"),
        key.alias("key"),
        F.when(used, F.col(VALUE)).otherwise(payload).alias("value"),
        F.when(used, _headers(target)).otherwise(_headers(target, cause)).alias("headers"),
        _partition(key, count).alias("partition"),
        ORIGIN,
        FATE,
        INDEX,
        FIRST,
        F.when(used, of_output([s.name for s in outputs], "string")).alias(STREAM),
    )


def _chosen(by: Column, values: Mapping[Any, Any], kind: str) -> Column:
    """The value that belongs to what `by` says; a constant where there is only one."""
    items = list(values.items())
    if not items:
        return F.lit(None).cast(kind)
    found = F.lit(items[-1][1]).cast(kind)
    for name, value in items[:-1]:
        found = F.when(by.eqNullSafe(name), F.lit(value).cast(kind)).otherwise(found)
    return found


def _headers(target: Target, cause: Column | None = None) -> Column:
    """The record's headers: its origin always first, then times on a share, then the cause."""
    origin = F.concat_ws(
        " ",
        F.lit(target.job),
        F.col(f"{ORIGIN}.stream"),
        F.col(f"{ORIGIN}.partition").cast("string"),
        F.col(f"{ORIGIN}.position").cast("string"),
        F.col(INDEX).cast("string"),
    )
    first = _header(ORIGIN_HEADER, origin)
    times = F.col(f"{ORIGIN}.times")
    second = _header(TIMES_HEADER, times)
    if cause is not None:
        return F.array(first, _header(CAUSE_HEADER, cause))
    return F.when(times.isNull(), F.array(first)).otherwise(F.array(first, second))


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))


def _key(output: Stream, columns: Sequence[str]) -> Column:
    """The declared key columns of a result; without any, the key of the input record."""
    if not output.key:
        return F.col(f"{ORIGIN}.key")
    return declared_key(output, columns)


def declared_key(output: Stream, columns: Sequence[str]) -> Column:
    """The bytes of a row's key: one column as text, several as a JSON object."""
    named = [F.col(f"`{name}`") for name in output.key if name in columns]
    if not named:
        return F.lit(None).cast("binary")
    text = named[0].cast("string") if len(named) == 1 else F.to_json(F.struct(*named))
    return text.cast("binary")


def _partition(key: Column, count: Column) -> Column:
    """The sink's partition: by key as librdkafka does, without one by turns."""
    turn = F.pmod(F.col(f"{ORIGIN}.position"), count)
    return F.coalesce(F.pmod(F.crc32(key), count), turn).cast("int")
