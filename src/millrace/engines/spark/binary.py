"""Binary formats: a stream's columns as a schema of Avro and of Arrow."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from millrace.errors import OperationFailed

_NESTED = re.compile(r"(array|map)\s*<(.*)>", re.DOTALL)
_DECIMAL = re.compile(r"(?:decimal|numeric)\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_SAME = {
    "tinyint": "byte", "smallint": "short", "integer": "int", "bigint": "long", "real": "float",
    "timestamp_ltz": "timestamp",
}  # fmt: skip
_AVRO: Mapping[str, Any] = {
    "boolean": "boolean", "byte": "int", "short": "int", "int": "int", "long": "long",
    "float": "float", "double": "double", "string": "string", "binary": "bytes",
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
    "date": {"type": "int", "logicalType": "date"},
}  # fmt: skip
_ARROW: Mapping[str, Any] = {
    "boolean": pa.bool_(), "byte": pa.int8(), "short": pa.int16(), "int": pa.int32(),
    "long": pa.int64(), "float": pa.float32(), "double": pa.float64(), "string": pa.string(),
    "binary": pa.binary(), "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"), "date": pa.date32(),
}  # fmt: skip


def avro_schema(schema: Mapping[str, str]) -> str:
    """Return the columns as Avro declares a record; each may be null."""
    fields = [
        {"name": name, "type": _nullable(_avro(kind)), "default": None}
        for name, kind in schema.items()
    ]
    return json.dumps({"type": "record", "name": "record", "fields": fields})


def arrow_schema(schema: Mapping[str, str]) -> Any:
    """Return the columns as Arrow declares them."""
    return pa.schema([(name, _arrow(kind)) for name, kind in schema.items()])


def _avro(kind: str) -> Any:
    return _built(
        kind,
        _AVRO,
        lambda digits, scale: {
            "type": "bytes", "logicalType": "decimal", "precision": digits, "scale": scale,
        },
        lambda items: {"type": "array", "items": _nullable(items)},
        lambda values: {"type": "map", "values": _nullable(values)},
    )  # fmt: skip


def _nullable(kind: Any) -> list[Any]:
    return ["null", kind]


def _arrow(kind: str) -> Any:
    return _built(
        kind, _ARROW, pa.decimal128, pa.list_, lambda values: pa.map_(pa.string(), values)
    )


def _built(
    kind: str,
    simple: Mapping[str, Any],
    decimal: Callable[[int, int], Any],
    array: Callable[[Any], Any],
    table: Callable[[Any], Any],
) -> Any:
    """Build the type of a column from those of its parts."""
    word = kind.strip().lower()
    word = _SAME.get(word, word)
    if word in simple:
        return simple[word]
    if match := _DECIMAL.fullmatch(word):
        return decimal(int(match[1]), int(match[2]))
    if match := _NESTED.fullmatch(word):
        inner = match[2]
        if match[1] == "map":
            key, _, inner = inner.partition(",")
            if key.strip() != "string":
                raise _unknown(kind)
        made = _built(inner, simple, decimal, array, table)
        return array(made) if match[1] == "array" else table(made)
    raise _unknown(kind)


def _unknown(kind: str) -> OperationFailed:
    return OperationFailed(
        "no-binary-type",
        f"a column of {kind} can't be written as avro or arrow",
        "use simple types, decimal(P,S), array<T> and map<string,T>, or format: json",
    )
