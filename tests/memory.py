"""How much memory a process takes, with all that it started."""

from __future__ import annotations

import psutil


def memory(pid: int) -> int:
    """Return the memory of a process and of all below it, in bytes."""
    top = psutil.Process(pid)
    return sum(process.memory_info().rss for process in [top, *top.children(recursive=True)])
