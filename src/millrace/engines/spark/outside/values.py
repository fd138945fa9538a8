"""Values of tables as JSON, written as Spark reads them back."""

from __future__ import annotations

import base64
import math
from datetime import date
from typing import Any

import orjson


def json_of(row: dict[str, Any]) -> bytes:
    """Return a row as JSON: bytes as base64, numbers without bound by their names."""
    return orjson.dumps({name: _plain(value) for name, value in row.items()})


def _plain(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (str, int, bool):
        return value
    if kind is float:
        return value if math.isfinite(value) else _named(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    # A date is a time's mother; subclasses of both are strangers to the writer of JSON.
    return value.isoformat() if isinstance(value, date) else str(value)


def _named(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _key(key: Any) -> str:
    plain = _plain(key)
    return plain if isinstance(plain, str) else orjson.dumps(plain).decode()
