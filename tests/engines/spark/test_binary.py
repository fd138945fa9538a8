"""Avro and Arrow: what is written is read again, and what is neither is malformed."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from millrace.engines.spark.binary import arrow_schema, avro_schema
from millrace.engines.spark.typed import reader, writer
from millrace.errors import OperationFailed
from millrace.model.stream import Format

SCHEMA = {
    "id": "bigint",
    "small": "tinyint",
    "name": "STRING",
    "speed": "double",
    "good": "boolean",
    "at": "timestamp",
    "day": "date",
    "price": "decimal(10, 2)",
    "data": "binary",
    "list": "array<int>",
    "tags": "map<string, double>",
}
ROW: dict[str, Any] = {
    "id": 2**40,
    "small": 7,
    "name": "it's ä",
    "speed": 1.5,
    "good": True,
    "at": datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
    "day": date(2026, 1, 2),
    "price": Decimal("12.34"),
    "data": b"\x00\xff",
    "list": [1, 2],
    "tags": {"a": 0.5},
}
BINARY = [Format.AVRO, Format.ARROW]


def plain(row: dict[str, Any] | None) -> dict[str, Any] | None:
    """Arrow gives maps as pairs."""
    if row is not None and isinstance(row["tags"], list):
        row["tags"] = dict(row["tags"])
    return row


@pytest.mark.parametrize("format_", BINARY)
@pytest.mark.parametrize("row", [ROW, dict.fromkeys(SCHEMA)])
def test_what_is_written_is_read_again(format_: Format, row: dict[str, Any]) -> None:
    data = writer(format_, SCHEMA)(row)
    assert plain(reader(format_, SCHEMA)(data)) == row


@pytest.mark.parametrize("format_", BINARY)
@pytest.mark.parametrize("data", [None, b"", b"\x05", b'{"id": 1}'])
def test_what_is_neither_is_malformed(format_: Format, data: bytes | None) -> None:
    assert reader(format_, SCHEMA)(data) is None


@pytest.mark.parametrize("format_", BINARY)
def test_a_column_that_the_stream_has_not(format_: Format) -> None:
    with pytest.raises(TypeError, match="no column 'more'"):
        writer(format_, {"id": "int"})({"id": 1, "more": 2})


@pytest.mark.parametrize("kind", ["struct<a: int>", "map<int, int>", "interval day"])
def test_types_that_can_not_be_written(kind: str) -> None:
    for made in (avro_schema, arrow_schema):
        with pytest.raises(OperationFailed, match="can't be written as avro or arrow"):
            made({"x": kind})
