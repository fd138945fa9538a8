"""Waiting for something, with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable

LIMIT = 30.0


def eventually(condition: Callable[[], bool], limit: float = LIMIT) -> bool:
    """Return whether something became true in time."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
