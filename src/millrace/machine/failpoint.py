"""Named places at which a process can be made to end at once, to try out what comes after.

They stand before and after everything that is kept or done. MILLRACE_FAILPOINT=`NAME#N` ends the
process when it comes to that place for the Nth time; MILLRACE_FAILPOINT_LOG=`FILE` writes down the
places that it came to. Without these nothing happens.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Methods of ports that change nothing: no failpoint stands around them.
LOOKS = frozenset(
    {"broker", "clients", "ends", "entries", "examine", "goal", "last", "load", "log",
     "progress", "read", "received", "since", "status"}
)  # fmt: skip
_lock = threading.Lock()
_seen: Counter[str] = Counter()


def wanted() -> bool:
    """Whether somebody wants to know of these places."""
    return not os.environ.keys().isdisjoint(("MILLRACE_FAILPOINT", "MILLRACE_FAILPOINT_LOG"))


def reach(name: str) -> None:
    """Come to a place; where it is the chosen one, the process ends as by kill -9."""
    if not wanted():
        return
    chosen, log = os.environ.get("MILLRACE_FAILPOINT"), os.environ.get("MILLRACE_FAILPOINT_LOG")
    with _lock:
        _seen[name] += 1
        place = f"{name}#{_seen[name]}"
        if log is not None:
            with Path(log).open("a", encoding="utf-8") as file:
                file.write(f"{place}\n")
        if place == chosen:
            os.kill(os.getpid(), signal.SIGKILL)


class Pointed:
    """Another object, with a failpoint before and after each of its methods that changes things."""

    def __init__(self, inner: Any, name: str) -> None:
        self._inner = inner
        self._name = name

    def __getattr__(self, method: str) -> Any:
        """Return a method of the other, with its failpoints; all else as it is."""
        found = getattr(self._inner, method)
        if method in LOOKS or method.startswith("_") or not callable(found):
            return found
        return _between(found, f"{self._name}.{method}")


def _between(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    def called(*args: Any, **more: Any) -> Any:
        reach(f"{name}.before")
        result = method(*args, **more)
        reach(f"{name}.after")
        return result

    return called
