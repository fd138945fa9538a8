"""Records for plain Python functions: bytes to a dict of typed values, and back.

Runs in Spark's Python workers, record by record: built for speed. It takes the same records as
malformed as Spark's own parser does in the other kinds of jobs.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import orjson
import pyarrow as pa

from millrace.engines.spark import arrow
from millrace.engines.spark.binary import arrow_schema, avro_schema
from millrace.model.stream import Format

Reader = Callable[[bytes | None], dict[str, Any] | None]
Writer = Callable[[Any], bytes]

_INTEGERS: Final = {
    "byte": 2**7, "tinyint": 2**7, "short": 2**15, "smallint": 2**15, "int": 2**31,
    "integer": 2**31, "long": 2**63, "bigint": 2**63,
}  # fmt: skip
_DECODER: Final = json.JSONDecoder()
_NO_NUMBERS: Final = frozenset(
    {"NaN", "Infinity", "+Infinity", "-Infinity", "INF", "+INF", "-INF"}
)  # fmt: skip
#: Python would also read weeks, days without hyphens and hours without seconds; Spark does not.
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")
_DAY: Final = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?")


class Malformed(ValueError):
    """A value that does not fit its column."""


def reader(format_: Format, schema: Mapping[str, str]) -> Reader:
    """Return what reads a record; it gives None for one that is malformed."""
    name = next(iter(schema))
    if format_ is Format.RAW:
        return lambda value: {name: value}
    if format_ is Format.TEXT:
        return lambda value: {name: None if value is None else value.decode("utf-8", "replace")}
    if format_ is Format.AVRO:
        return _avro_reader(schema)
    if format_ is Format.ARROW:
        return arrow.reader(arrow_schema(schema))
    converters = {column: converter(kind) for column, kind in schema.items()}
    if format_ is Format.CSV:
        return _csv_reader(converters)
    return _json_reader(converters)


def _avro_reader(schema: Mapping[str, str]) -> Reader:
    import fastavro  # noqa: PLC0415 - few jobs need it

    known = fastavro.parse_schema(json.loads(avro_schema(schema)))

    def read(value: bytes | None) -> dict[str, Any] | None:
        try:
            row = fastavro.schemaless_reader(io.BytesIO(value or b""), known, None)
        except (EOFError, ValueError, IndexError, OverflowError):
            return None
        return row if isinstance(row, dict) else None

    return read


def _json_reader(converters: Mapping[str, Callable[[Any], Any]]) -> Reader:
    items = tuple(converters.items())
    loads = orjson.loads

    def read(value: bytes | None) -> dict[str, Any] | None:
        if value is None:
            return None
        try:
            try:
                row = loads(value)
            except ValueError:
                row = _lenient(value)
            get = row.get
            return {
                name: None if (item := get(name)) is None else convert(item)
                for name, convert in items
            }
        except (ValueError, AttributeError, RecursionError, OverflowError):
            return None

    return read


def _lenient(value: bytes) -> Any:
    """The object of a text that is not quite JSON, as Spark takes it.

    Spark knows a bare NaN and numbers without bound.
    """
    text = value.decode("utf-8", "replace").strip()
    row, end = _DECODER.raw_decode(text)
    if end < len(text):
        raise ValueError(text[end:])
    return row


def _csv_reader(converters: Mapping[str, Callable[[Any], Any]]) -> Reader:
    items = tuple(converters.items())

    def read(value: bytes | None) -> dict[str, Any] | None:
        if not value:
            return None
        try:
            cells = next(csv.reader([value.decode("utf-8")]))
            if len(cells) != len(items):
                return None
            return {
                name: None if cell == "" else convert(_cell(cell))
                for (name, convert), cell in zip(items, cells, strict=True)
            }
        except (ValueError, StopIteration, csv.Error):
            return None

    return read


class _Cell(str):
    """A cell of a CSV line: a text that may stand for any type."""

    __slots__ = ()


def _cell(text: str) -> _Cell:
    return _Cell(text)


def converter(kind: str) -> Callable[[Any], Any]:
    """Return what makes a column's value of what JSON or CSV gave; it raises Malformed."""
    word = kind.strip().lower()
    if word in _INTEGERS:
        return _integer(_INTEGERS[word])
    if word in ("double", "float", "real"):
        return _float
    if word.startswith(("decimal", "numeric")):
        return _decimal
    simple = {
        "string": _string, "boolean": _boolean, "timestamp": _timestamp,
        "timestamp_ltz": _timestamp, "timestamp_ntz": _timestamp, "date": _date, "binary": _string,
    }  # fmt: skip
    # Arrays, maps and structs are given as JSON has them.
    return simple.get(word, lambda value: value)


def _integer(bound: int) -> Callable[[Any], Any]:
    def convert(value: Any) -> int:
        number = int(value) if type(value) is _Cell else value
        if type(number) is not int or not -bound <= number < bound:
            raise Malformed
        return number

    return convert


def _float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        return float(value)
    if type(value) is _Cell or (type(value) is str and value in _NO_NUMBERS):
        return float(value)
    raise Malformed


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or (type(value) is str and not value.strip()):
        raise Malformed
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise Malformed from None
    if not math.isfinite(number):
        raise Malformed
    return number


def _string(value: Any) -> str:
    if type(value) is str:
        return value
    return str(value) if type(value) is _Cell else orjson.dumps(value).decode()


def _boolean(value: Any) -> bool:
    if type(value) is bool:
        return value
    if type(value) is _Cell and value.lower() in ("true", "false"):
        return bool(value.lower() == "true")
    raise Malformed


def _timestamp(value: Any) -> datetime:
    if type(value) is int:
        try:
            return datetime.fromtimestamp(value, UTC)
        except OSError:  # beyond what the machine's own clock can hold
            raise Malformed from None
    if not isinstance(value, str):
        raise Malformed
    if _TIME.match(value) is None:
        day = _day(value)
        return datetime(day.year, day.month, day.day, tzinfo=UTC)
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _date(value: Any) -> date:
    if not isinstance(value, str):
        raise Malformed
    return _day(value.replace("T", " ").partition(" ")[0])


def _day(text: str) -> date:
    """A day as Spark reads it: month and day may be left out, and be of one digit."""
    found = _DAY.fullmatch(text)
    if found is None:
        raise Malformed
    year, month, day = found.groups("1")
    return date(int(year), int(month), int(day))


def writer(format_: Format, schema: Mapping[str, str] | None) -> Writer:
    """Return what writes a result down; it raises for one that is not of the stream's columns."""
    if format_ in (Format.RAW, Format.TEXT):
        return _plain
    columns = tuple(schema or ())
    known = frozenset(columns)

    def checked(row: Any) -> dict[str, Any]:
        if not isinstance(row, dict):
            message = f"a result must be a dict, not {type(row).__name__}"
            raise TypeError(message)
        if known and not known >= row.keys():
            message = f"the stream has no column {sorted(row.keys() - known)[0]!r}"
            raise TypeError(message)
        return row

    if format_ is Format.CSV:
        return lambda row: _csv_line(checked(row), columns)
    if format_ is Format.AVRO:
        return _avro_writer(schema or {}, checked)
    if format_ is Format.ARROW:
        known_types = arrow_schema(schema or {})
        return lambda row: arrow.written(
            pa.RecordBatch.from_pylist([checked(row)], schema=known_types)
        )
    return lambda row: orjson.dumps(checked(row), default=str)


def _avro_writer(schema: Mapping[str, str], checked: Callable[[Any], dict[str, Any]]) -> Writer:
    import fastavro  # noqa: PLC0415 - few jobs need it

    known = fastavro.parse_schema(json.loads(avro_schema(schema)))

    def write(row: Any) -> bytes:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, known, checked(row))
        return sink.getvalue()

    return write


def _plain(value: Any) -> bytes:
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    message = f"a result must be bytes or text, not {type(value).__name__}"
    raise TypeError(message)


def _csv_line(row: dict[str, Any], columns: tuple[str, ...]) -> bytes:
    cells = ("" if (item := row.get(name)) is None else str(item) for name in columns or row)
    quoted = (
        f'"{c.replace(chr(34), chr(34) * 2)}"' if set(c) & set('",\n\r') else c for c in cells
    )
    return ",".join(quoted).encode()
