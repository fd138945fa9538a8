"""Documents as bytes: JSON, compressed, with a sum that tells when a byte is not what it was."""

from __future__ import annotations

import json
import zlib
from typing import Any

from millrace.ports.store import Document


class Damaged(Exception):
    """Bytes that are not what was written."""


def packed(document: Document) -> tuple[bytes, int]:
    """Return a document as bytes, and their sum."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    body = zlib.compress(text.encode(), 6)
    return body, zlib.crc32(body)


def unpacked(body: bytes, total: int) -> dict[str, Any]:
    """Return the document; raises `Damaged` where the bytes are others."""
    if zlib.crc32(body) != total:
        message = "a document is not what was written"
        raise Damaged(message)
    found: dict[str, Any] = json.loads(zlib.decompress(body))
    return found
