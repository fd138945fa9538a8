"""A job's results as rows for Kafka's sink: topic, key, value, headers, partition.

The partition is chosen here, by the same rule as librdkafka's (crc32 of the key), and each row's
header names its origin. So a successor that finds the last origin in each partition of the sink
knows what is there already (see `resume`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from millrace.engines.spark.formats import encoded, quoted, text
from millrace.engines.spark.source import BAD, ORIGIN, ORIGIN_HEADER, TIMES_HEADER
from millrace.model.stream import Stream

CAUSE_HEADER = "millrace-cause"
#: What Kafka takes without a word about size, less what a batch needs beside the value.
DEFAULT_LARGEST = 1_000_000
#: Columns of a row on its way to the sink, beside Kafka's own.
KEY, VALUE, CAUSE, OUT = "__key", "__value", "__cause", "__out"
FATE, INDEX, FIRST, STREAM = "__fate", "__index", "__first", "__stream"
USED, MALFORMED, DROPPED = 0, 1, 2
_NOTHING = "CAST(NULL AS STRING)"
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
    """Return key and value of a query's results, with the origin of each and if it is malformed.

    They are those of a job with one output; `fanned` puts several together.
    """
    key = declared_key(output, columns) if output.key else f"{ORIGIN}.key"
    return frame.selectExpr(
        f"if({BAD}, NULL, {key}) AS {KEY}",
        f"if({BAD}, NULL, {encoded(output, columns)}) AS {VALUE}",
        ORIGIN,
        BAD,
        f"0 AS {OUT}",
        f"0 AS {INDEX}",
        f"true AS {FIRST}",
    )


def routed(rows: DataFrame, target: Target) -> DataFrame:
    """Return staged rows as rows of the sink: results and dead letters."""
    limits = [str(target.largest(stream)) for stream in target.outputs.values()]
    limit = _chosen(OUT, dict(enumerate(limits)))
    fate = (
        f"CASE WHEN {BAD} THEN {MALFORMED} WHEN length({VALUE}) > {limit} THEN {DROPPED} "
        f"ELSE {USED} END"
    )
    return addressed(rows, target, fate=f"({fate})", cause=_NOTHING)


def letter_rows(base: DataFrame, target: Target) -> DataFrame:
    """Return the dead letters of an input whose query loses origins."""
    rows = base.where(BAD).selectExpr(
        f"CAST(NULL AS BINARY) AS {KEY}",
        f"CAST(NULL AS BINARY) AS {VALUE}",
        ORIGIN,
        f"{MALFORMED} AS {FATE}",
        f"{_NOTHING} AS {CAUSE}",
        f"0 AS {OUT}",
        f"0 AS {INDEX}",
        f"true AS {FIRST}",
    )
    return addressed(rows, target)


def plain_rows(
    frame: DataFrame, columns: Sequence[str], output: Stream, target: Target
) -> DataFrame:
    """Return the results of a query that loses origins: only the job is in their header."""
    key = declared_key(output, columns)
    header = f"array({_header(ORIGIN_HEADER, text(target.job))})"
    return frame.selectExpr(
        f"{text(output.address)} AS topic",
        f"{key} AS key",
        f"{encoded(output, columns)} AS value",
        f"{header} AS headers",
        f"CAST(pmod(crc32({key}), {output.partitions}) AS INT) AS partition",
        f"{text(output.name)} AS {STREAM}",
    )


def addressed(
    rows: DataFrame, target: Target, *, fate: str = FATE, cause: str = CAUSE
) -> DataFrame:
    """Make rows of the sink of rows with key, value, origin, output, index and first.

    `fate` and `cause` are columns, or how they are worked out: a select less at every start.
    """
    used = f"{fate} = {USED}"
    outputs = list(target.outputs.values())
    letters = {name: target.letters.get(name) for name in target.causes}
    topics = {name: text(s.address if s else None) for name, s in letters.items()}
    counts = {name: str(s.partitions if s else 1) for name, s in letters.items()}
    topic = f"if({used}, {_by_output(outputs, 'address')}, {_by_input(topics)})"
    count = f"if({used}, {_by_output(outputs, 'partitions')}, {_by_input(counts)})"
    key = f"if({used}, {KEY}, {ORIGIN}.key)"
    letter = _headers(target, _cause(target, fate, cause))
    headers = f"if({used}, {_headers(target)}, {letter})"
    return rows.selectExpr(
        f"{topic} AS topic",
        f"{key} AS key",
        f"if({used}, {VALUE}, {ORIGIN}.payload) AS value",
        f"{headers} AS headers",
        # By key as librdkafka does; without one by turns.
        f"CAST(pmod(coalesce(crc32({key}), {ORIGIN}.position), {count}) AS INT) AS partition",
        ORIGIN,
        f"{fate} AS {FATE}",
        INDEX,
        FIRST,
        f"if({used}, {_by_output(outputs, 'name')}, NULL) AS {STREAM}",
    )


def _by_output(outputs: Sequence[Stream], what: str) -> str:
    """A setting of the output that a row goes to."""
    values = [getattr(stream, what) for stream in outputs]
    return _chosen(OUT, dict(enumerate(text(v) if isinstance(v, str) else str(v) for v in values)))


def _by_input(values: Mapping[str, str]) -> str:
    """What belongs to the input that a row came from."""
    return _chosen(f"{ORIGIN}.stream", {text(name): value for name, value in values.items()})


def _chosen(by: str, values: Mapping[Any, str]) -> str:
    """The value that belongs to what `by` says; a constant where there is only one."""
    *first, (_, last) = values.items()
    cases = " ".join(f"WHEN {by} = {name} THEN {value}" for name, value in first)
    return f"CASE {cases} ELSE {last} END" if cases else last


def _cause(target: Target, fate: str, cause: str) -> str:
    """Why a row became a dead letter."""
    malformed = _by_input({name: text(cause) for name, cause in target.causes.items()})
    return (
        f"coalesce({cause}, if({fate} = {MALFORMED}, {malformed}, concat("
        f"'the result is larger than its stream takes: ', length({VALUE}), ' bytes')))"
    )


def _headers(target: Target, cause: str | None = None) -> str:
    """The record's headers: its origin always first, then times on a share, then the cause."""
    origin = (
        f"concat_ws(' ', {text(target.job)}, {ORIGIN}.stream, {ORIGIN}.partition, "
        f"{ORIGIN}.position, {INDEX})"
    )
    first, times = _header(ORIGIN_HEADER, origin), f"{ORIGIN}.times"
    if cause is not None:
        return f"array({first}, {_header(CAUSE_HEADER, cause)})"
    second = _header(TIMES_HEADER, times)
    return f"if({times} IS NULL, array({first}), array({first}, {second}))"


def _header(name: str, value: str) -> str:
    return f"named_struct('key', '{name}', 'value', CAST({value} AS BINARY))"


def declared_key(output: Stream, columns: Sequence[str]) -> str:
    """The bytes of a row's key: one column as text, several as a JSON object."""
    named = [quoted(name) for name in output.key if name in columns]
    if not named:
        return "CAST(NULL AS BINARY)"
    several = f"to_json(struct({', '.join(named)}))"
    return f"CAST({f'CAST({named[0]} AS STRING)' if len(named) == 1 else several} AS BINARY)"
