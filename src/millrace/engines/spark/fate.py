"""What became of a record, as the rows of a query carry it."""

from __future__ import annotations

USED, MALFORMED, DROPPED, LATE = 0, 1, 2, 3
