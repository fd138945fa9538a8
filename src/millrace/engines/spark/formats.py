"""Formats as Spark expressions: a record's bytes to columns, and columns to bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millrace.engines.spark.arrow import TO_ARROW, from_arrow
from millrace.engines.spark.binary import avro_schema
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
    """How a value becomes columns, in SQL.

    `record` is worked out once and the others use it; it is empty where they need none.
    """

    record: str
    columns: Mapping[str, str]
    malformed: str
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


def text(value: str | None) -> str:
    """Return a text as SQL writes it."""
    if value is None:
        return "CAST(NULL AS STRING)"
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def named(value: str | None) -> str:
    """Return a name as SQL writes it, and as `templates` finds it: it differs between jobs."""
    return text(value) if value is None else f"/*name*/{text(value)}"


def quoted(name: str) -> str:
    """Return a column's name as SQL writes it."""
    return f"`{name.replace('`', '``')}`"


def _options(options: Mapping[str, str]) -> str:
    return f"map({', '.join(text(part) for item in options.items() for part in item)})"


def key_text(columns: Sequence[str]) -> str:
    """Return the expression of a key of some columns as one text: JSON, with what is missing."""
    row = f"struct({', '.join(quoted(name) for name in columns)})"
    return f"to_json({row}, {_options({**_WRITE_TIMES, 'ignoreNullFields': 'false'})})"


def decoded(stream: Stream, schema: Schema, value: str, record: str) -> Decoded:
    """Return how `value` becomes columns; `record` is the name that `Decoded.record` gets."""
    if stream.format in (Format.RAW, Format.TEXT):
        name, kind = next(iter(schema.items()))
        return Decoded("", {name: f"CAST({value} AS {kind})"}, "false", "")
    if stream.format in (Format.AVRO, Format.ARROW):
        return _binary(stream, schema, value, record)
    known = text(f"{ddl(schema)}, `{_CORRUPT}` string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    if stream.format is Format.JSON:
        function, more = "from_json", _JSON
    else:
        function, more = "from_csv", _CSV
    parsed = f"{function}(CAST({value} AS STRING), {known}, {_options({**options, **more})})"
    columns = {name: f"{record}.{quoted(name)}" for name in schema}
    # An empty value gives nothing at all; a value of another type is kept as corrupt.
    malformed = f"{record} IS NULL OR {record}.`{_CORRUPT}` IS NOT NULL"
    if stream.format is Format.JSON:
        malformed += f" OR {_goes_on(value)}"
    return Decoded(parsed, columns, f"({malformed})", f"not {stream.format} of ({ddl(schema)})")


def _binary(stream: Stream, schema: Schema, value: str, record: str) -> Decoded:
    """Avro and Arrow: what can't be read gives nothing at all, or columns of nothing."""
    malformed = f"{record} IS NULL"
    if stream.format is Format.AVRO:
        # Spark gives a row of nulls for what it can't read; a true one is a zero for each column.
        nothing = " AND ".join(f"{record}.{quoted(name)} IS NULL" for name in schema)
        malformed += f" OR ({nothing} AND {value} != X'{'00' * len(schema)}')"
        options = _options({"mode": "PERMISSIVE"})
        parsed = f"from_avro({value}, {text(avro_schema(schema))}, {options})"
    else:
        parsed = f"{from_arrow(ddl(schema))}({value})"
    columns = {name: f"CAST({record}.{quoted(name)} AS {kind})" for name, kind in schema.items()}
    cause = f"not {stream.format} of ({ddl(schema)})"
    return Decoded(parsed, columns, f"({malformed})", cause)


def _goes_on(value: str) -> str:
    """Whether there is more after the first JSON value, which Spark would not see.

    The end of most records is their first closing brace; only others are looked at closely. Bytes
    are compared, not characters, which takes a quarter of the time.
    """
    rest = f"substring({value}, 1, octet_length({value}) - 1)"
    ends = f"endswith({value}, X'7D') AND NOT contains({rest}, X'7D')"
    one = f"json_array_length(concat('[', CAST({value} AS STRING), ']')) = 1"
    return f"NOT ({ends} OR coalesce({one}, false))"


def encoded(stream: Stream, columns: Sequence[str]) -> str:
    """Return the expression that writes a row's columns down as the stream's format asks."""
    row = f"struct({', '.join(quoted(name) for name in columns)})"
    if stream.format is Format.JSON:
        options = _options({**_WRITE_TIMES, "ignoreNullFields": "false"})
        return f"CAST(to_json({row}, {options}) AS BINARY)"
    if stream.format is Format.CSV:
        return f"CAST(to_csv({row}, {_options({**_WRITE_TIMES, **_CSV})}) AS BINARY)"
    if stream.format in (Format.RAW, Format.TEXT):
        if len(columns) != 1:
            raise OperationFailed(
                "one-column",
                f"stream {stream.name} is {stream.format}: it takes one column, and gets "
                f"{', '.join(columns)}",
                "select one column, or give the stream format: json",
            )
        kind = "STRING" if stream.format is Format.TEXT else "BINARY"
        return f"CAST(CAST({quoted(columns[0])} AS {kind}) AS BINARY)"
    schema = stream.schema
    if not schema:
        raise OperationFailed(
            "no-schema",
            f"stream {stream.name} is {stream.format} and has no schema",
            f"write streams.{stream.name}.schema: {{column: type, ...}}",
        )
    cast = ", ".join(f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}"
                     for name, kind in schema.items())  # fmt: skip
    if stream.format is Format.AVRO:
        return f"to_avro(struct({cast}), {text(avro_schema(schema))})"
    return f"{TO_ARROW}(struct({cast}))"
