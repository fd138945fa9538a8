"""Documents as bytes: JSON, compressed; and sums that tell when a byte of a row is another."""

from __future__ import annotations

import json
import zlib
from typing import Any

from millrace.ports.store import Document

#: What a column holds.
Value = str | int | float | bytes


class Damaged(Exception):
    """Bytes that are not what was written."""


def packed(document: Document) -> bytes:
    """Return a document as bytes."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return zlib.compress(text.encode(), 6)


def row_sum(*row: Value) -> int:
    """Return the sum of a row: of its values as JSON, and then of its document, the last one."""
    *head, body = row
    total = zlib.crc32(json.dumps(head, default=str).encode())
    return zlib.crc32(body, total) if isinstance(body, bytes) else -1


def body_sum(*row: Value) -> int:
    """Return the sum of a row as the first schema had it: of its document alone."""
    body = row[-1]
    return zlib.crc32(body) if isinstance(body, bytes) else -1


def unpacked(total: int, *row: Value) -> dict[str, Any]:
    """Return the document of a row; raises `Damaged` where the row is not what was written."""
    body = row[-1]
    if row_sum(*row) != total or not isinstance(body, bytes):
        message = "a document is not what was written"
        raise Damaged(message)
    found: dict[str, Any] = json.loads(zlib.decompress(body))
    return found
