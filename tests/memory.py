"""How much memory a process takes, with all that it started."""

from __future__ import annotations

from contextlib import suppress

import psutil


def memory(pid: int) -> int:
    """Return the memory of a process and of all below it, in bytes.

    What several of them share, as Python's workers do, is counted once.
    """
    top, total = psutil.Process(pid), 0
    for process in [top, *top.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):  # a worker may end meanwhile
            total += process.memory_full_info().pss
    return total
