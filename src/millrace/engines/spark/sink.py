"""A job's results as rows for Kafka's sink: topic, key, value, headers, partition.

The partition is chosen here, by the same rule as librdkafka's (crc32 of the key), and each row's
header names its origin. So a successor that finds the last origin in each partition of the sink
knows what is there already (see `resume`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from millrace.engines.spark.fate import DROPPED, MALFORMED, USED
from millrace.engines.spark.formats import encoded, named, quoted, text
from millrace.engines.spark.plans import Sketch
from millrace.engines.spark.source import BAD, ORIGIN
from millrace.model.stream import Stream
from millrace.ports import CAUSE_HEADER, ORIGIN_HEADER, TIMES_HEADER, JobOrder

#: What Kafka takes without a word about size, less what a batch needs beside the value.
DEFAULT_LARGEST = 1_000_000
#: Columns of a row on its way to the sink, beside Kafka's own.
KEY, VALUE, CAUSE, OUT = "__key", "__value", "__cause", "__out"
FATE, INDEX, FIRST, STREAM = "__fate", "__index", "__first", "__stream"
ROW = ("topic", "key", "value", "headers", "partition")


@dataclass(frozen=True, slots=True)
class Target:
    """Where results go, and where dead letters of each input go."""

    job: str
    outputs: Mapping[str, Stream]
    #: By the name of the input: where its dead letters go, and why its records are malformed.
    letters: Mapping[str, Stream]
    causes: Mapping[str, str]
    #: Whether origins know what functions on the way made of a record.
    lineage: bool = False

    def largest(self, stream: Stream) -> int:
        """The greatest value that the stream takes, in bytes."""
        return stream.max_record.bytes if stream.max_record is not None else DEFAULT_LARGEST


def job_name(order: JobOrder) -> str:
    """Return the job's name in headers; parts of a header are parted by spaces."""
    return f"{quote(order.pipeline.name)}/{order.job.name}"


def staged(
    rows: Sketch,
    columns: Sequence[str],
    output: Stream,
    *,
    lineage: bool = False,
    sound: bool = False,
) -> Sketch:
    """Return key and value of a query's results, with the origin of each and if it is malformed.

    They are those of a job with one output; `fanned` puts several together. With `sound` no row is
    malformed.
    """
    declared, value = declared_key(output, columns), encoded(output, columns)
    if not sound:
        declared, value = f"if({BAD}, NULL, {declared})", f"if({BAD}, NULL, {value})"
    return rows.select(
        f"{declared if output.key else f'{ORIGIN}.key'} AS {KEY}",
        f"{value} AS {VALUE}",
        ORIGIN,
        BAD,
        f"0 AS {OUT}",
        f"{f'{ORIGIN}.index' if lineage else '0'} AS {INDEX}",
        f"true AS {FIRST}",
    )


def routed(rows: Sketch, target: Target, *, sound: bool = False) -> Sketch:
    """Return staged rows as rows of the sink: results and dead letters.

    With `sound` no row is malformed.
    """
    limits = [str(target.largest(stream)) for stream in target.outputs.values()]
    limit = _chosen(OUT, dict(enumerate(limits)))
    dead = f"coalesce({ORIGIN}.fate, {MALFORMED})" if target.lineage else str(MALFORMED)
    fate = f"if(length({VALUE}) > {limit}, {DROPPED}, {USED})"
    if not sound:
        fate = f"if({BAD}, {dead}, {fate})"
    fated = rows.select(KEY, VALUE, ORIGIN, f"{fate} AS {FATE}", OUT, INDEX, FIRST)
    return addressed(fated, target)


def letter_rows(base: Sketch, target: Target) -> Sketch:
    """Return the dead letters of an input whose query loses origins."""
    rows = base.where(BAD).select(
        f"CAST(NULL AS BINARY) AS {KEY}",
        f"CAST(NULL AS BINARY) AS {VALUE}",
        ORIGIN,
        f"{MALFORMED} AS {FATE}",
        f"0 AS {OUT}",
        f"0 AS {INDEX}",
        f"true AS {FIRST}",
    )
    return addressed(rows, target)


def plain_rows(rows: Sketch, columns: Sequence[str], output: Stream, target: Target) -> Sketch:
    """Return the results of a query that loses origins: only the job is in their header.

    One that is larger than its stream takes becomes a dead letter without payload, where there is
    a stream for these; else Kafka refuses it and the job fails.
    """
    made = rows.select(
        f"{declared_key(output, columns)} AS {KEY}", f"{encoded(output, columns)} AS {VALUE}"
    )
    origin = _header(ORIGIN_HEADER, text(target.job))
    letters = next(iter(target.letters.values()), output)
    large = f"length({VALUE}) > {target.largest(output)}" if target.letters else "false"
    cause = _header(CAUSE_HEADER, _too_large())
    count = f"if({large}, {letters.partitions}, {output.partitions})"
    return made.select(
        f"if({large}, {text(letters.address)}, {text(output.address)}) AS topic",
        f"{KEY} AS key",
        f"if({large}, NULL, {VALUE}) AS value",
        f"if({large}, array({origin}, {cause}), array({origin})) AS headers",
        f"CAST(pmod(crc32({KEY}), {count}) AS INT) AS partition",
        f"if({large}, NULL, {text(output.name)}) AS {STREAM}",
    )


def addressed(rows: Sketch, target: Target, *, caused: bool = False) -> Sketch:
    """Make rows of the sink of rows with key, value, origin, fate, output, index and first.

    Rows that are `caused` say why they are dead. What is said here is planned anew by Spark at
    every batch boundary, while records wait: it is as short as it can be.
    """
    used = f"{FATE} = {USED}"
    outputs = list(target.outputs.values())
    keyed = any(stream.key for stream in outputs)
    if not target.letters:  # what a row says that goes nowhere nobody reads
        topic = f"if({used}, {_by_output(outputs, 'address')}, NULL)"
        key = KEY if keyed else f"{ORIGIN}.key"
        count = _by_output(outputs, "partitions")
        return _rows(rows, outputs, topic, key, VALUE, _headers(target), count)
    letters = {name: target.letters.get(name) for name in target.causes}
    topics = {name: named(s.address if s else None) for name, s in letters.items()}
    counts = {name: str(s.partitions if s else 1) for name, s in letters.items()}
    topic = _either(used, _by_output(outputs, "address"), _by_input(target, topics))
    count = _either(used, _by_output(outputs, "partitions"), _by_input(target, counts))
    key = f"if({used}, {KEY}, {ORIGIN}.key)" if keyed else f"{ORIGIN}.key"
    value = f"if({used}, {VALUE}, {ORIGIN}.payload)"
    letter = _headers(target, _cause(target, caused=caused))
    headers = f"if({used}, {_headers(target)}, {letter})"
    return _rows(rows, outputs, topic, key, value, headers, count)


def _rows(
    rows: Sketch,
    outputs: Sequence[Stream],
    topic: str,
    key: str,
    value: str,
    headers: str,
    count: str,
) -> Sketch:
    """Rows of the sink by what each of its columns is, and what is counted of them."""
    return rows.select(
        f"{topic} AS topic",
        f"{key} AS key",
        f"{value} AS value",
        f"{headers} AS headers",
        f"{_partition(key, count)} AS partition",
        ORIGIN,
        FATE,
        INDEX,
        FIRST,
        f"if({FATE} = {USED}, {_by_output(outputs, 'name')}, NULL) AS {STREAM}",
    )


def _partition(key: str, count: str) -> str:
    """The partition that a row goes to: by key as librdkafka does; without one by turns."""
    if count == "1":
        return "0"
    return f"CAST(pmod(coalesce(crc32({key}), {ORIGIN}.position), {count}) AS INT)"


def _either(condition: str, one: str, other: str) -> str:
    return one if one == other else f"if({condition}, {one}, {other})"


def _by_output(outputs: Sequence[Stream], what: str) -> str:
    """A setting of the output that a row goes to."""
    values = [getattr(stream, what) for stream in outputs]
    return _chosen(OUT, dict(enumerate(named(v) if isinstance(v, str) else str(v) for v in values)))


def _by_input(target: Target, values: Mapping[str, str]) -> str:
    """What belongs to the input that a row came from, or died in."""
    by = f"coalesce({ORIGIN}.via, {ORIGIN}.stream)" if target.lineage else f"{ORIGIN}.stream"
    return _chosen(by, {named(name): value for name, value in values.items()})


def _chosen(by: str, values: Mapping[Any, str]) -> str:
    """The value that belongs to what `by` says; a constant where there is only one."""
    *first, (_, last) = values.items()
    cases = " ".join(f"WHEN {by} = {name} THEN {value}" for name, value in first)
    return f"CASE {cases} ELSE {last} END" if cases else last


def _cause(target: Target, *, caused: bool) -> str:
    """Why a row became a dead letter."""
    malformed = _by_input(target, {name: text(cause) for name, cause in target.causes.items()})
    found = f"if({FATE} = {MALFORMED}, {malformed}, {_too_large()})"
    known = f"{ORIGIN}.cause" if target.lineage else CAUSE
    return f"coalesce({known}, {found})" if caused or target.lineage else found


def _too_large() -> str:
    return f"concat('the result is larger than its stream takes: ', length({VALUE}), ' bytes')"


def _headers(target: Target, cause: str | None = None) -> str:
    """The record's headers: its origin always first, then times on a share, then the cause."""
    origin = (
        f"concat_ws(' ', {named(target.job)}, {ORIGIN}.stream, {ORIGIN}.partition, "
        f"{ORIGIN}.position, {INDEX})"
    )
    first, times = _header(ORIGIN_HEADER, origin), f"{ORIGIN}.times"
    if cause is not None:
        return f"array({first}, {_header(CAUSE_HEADER, cause)})"
    second = _header(TIMES_HEADER, times)
    return f"slice(array({first}, {second}), 1, if({times} IS NULL, 1, 2))"


def _header(name: str, value: str) -> str:
    return f"named_struct('key', '{name}', 'value', CAST({value} AS BINARY))"


def declared_key(output: Stream, columns: Sequence[str]) -> str:
    """The bytes of a row's key: one column as text, several as a JSON object."""
    named = [quoted(name) for name in output.key if name in columns]
    if not named:
        return "CAST(NULL AS BINARY)"
    several = f"to_json(struct({', '.join(named)}))"
    return f"CAST({f'CAST({named[0]} AS STRING)' if len(named) == 1 else several} AS BINARY)"
