"""Formats as Spark expressions: a record's bytes to columns, and columns to bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.errors import OperationFailed
from millrace.model.stream import Format, Stream

#: A record of the formats that have no columns of their own.
VALUE = "value"
_CORRUPT = "__corrupt"
#: Microseconds are kept; Spark's default would cut them to milliseconds.
_WRITE_TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
#: Texts in single quotes are no JSON, though Spark would take them.
_JSON = {"allowSingleQuotes": "false"}
#: A quote inside quotes is doubled, as all other programs do; Spark's default is a backslash.
_CSV = {"escape": '"'}
Schema = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Decoded:
    """How a value becomes columns. `record` is worked out once, the others are taken from it."""

    record: Column
    columns: Mapping[str, Column]
    malformed: Column
    #: Why a record of this format is malformed, for the dead letter.
    cause: str


def schema_of(stream: Stream, known: Schema | None = None) -> Schema:
    """Return a stream's columns: declared, else as its writer makes them."""
    if stream.format is Format.RAW:
        return {VALUE: "binary"}
    if stream.format is Format.TEXT:
        return {next(iter(stream.schema or {VALUE: ""})): "string"}
    schema = stream.schema or known
    if not schema:
        raise OperationFailed(
            "no-schema",
            f"stream {stream.name} has no schema, and no job of this pipeline writes it",
            f"write streams.{stream.name}.schema: {{column: type, ...}}",
        )
    return schema


def ddl(schema: Schema) -> str:
    """Return the columns as Spark's SQL declares them."""
    return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in schema.items())


def decoded(stream: Stream, schema: Schema, value: Column, record: Column) -> Decoded:
    """Return how `value` becomes columns; `record` refers to what `Decoded.record` was named."""
    if stream.format in (Format.RAW, Format.TEXT):
        name, kind = next(iter(schema.items()))
        return Decoded(value.cast(kind), {name: record}, F.lit(col=False), "")
    known = f"{ddl(schema)}, `{_CORRUPT}` string"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    if stream.format is Format.JSON:
        parsed = F.from_json(value.cast("string"), known, {**options, **_JSON})
    elif stream.format is Format.CSV:
        parsed = F.from_csv(value.cast("string"), known, {**options, **_CSV})
    else:
        raise _unknown(stream)
    columns = {name: record.getField(name) for name in schema}
    # An empty value gives nothing at all; a value of another type is kept as corrupt.
    malformed = record.isNull() | record.getField(_CORRUPT).isNotNull()
    return Decoded(parsed, columns, malformed, f"not {stream.format} of ({ddl(schema)})")


def encoded(stream: Stream, columns: Sequence[str]) -> Column:
    """Return the expression that writes a row's columns down as the stream's format asks."""
    named = [F.col(f"`{name}`") for name in columns]
    if stream.format is Format.JSON:
        row = F.struct(*named)
        return F.to_json(row, {**_WRITE_TIMES, "ignoreNullFields": "false"}).cast("binary")
    if stream.format is Format.CSV:
        return F.to_csv(F.struct(*named), {**_WRITE_TIMES, **_CSV}).cast("binary")
    if stream.format in (Format.RAW, Format.TEXT):
        if len(named) != 1:
            raise OperationFailed(
                "one-column",
                f"stream {stream.name} is {stream.format}: it takes one column, and gets "
                f"{', '.join(columns)}",
                "select one column, or give the stream format: json",
            )
        return named[0].cast("string" if stream.format is Format.TEXT else "binary").cast("binary")
    raise _unknown(stream)


def _unknown(stream: Stream) -> OperationFailed:
    return OperationFailed(
        "not-yet",
        f"stream {stream.name}: Spark jobs can't use {stream.format} yet",
        "use json, csv, text or raw",
    )
