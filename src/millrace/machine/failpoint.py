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

_lock = threading.Lock()
_seen: Counter[str] = Counter()


def reach(name: str) -> None:
    """Come to a place; where it is the chosen one, the process ends as by kill -9."""
    wanted = os.environ.get("MILLRACE_FAILPOINT")
    log = os.environ.get("MILLRACE_FAILPOINT_LOG")
    if wanted is None and log is None:
        return
    with _lock:
        _seen[name] += 1
        place = f"{name}#{_seen[name]}"
        if log is not None:
            with Path(log).open("a", encoding="utf-8") as file:
                file.write(f"{place}\n")
        if place == wanted:
            os.kill(os.getpid(), signal.SIGKILL)


class Pointed:
    """Another object, with a failpoint before and after each of its methods but for some."""

    def __init__(self, inner: Any, name: str, but: frozenset[str] = frozenset()) -> None:
        self._inner = inner
        self._name = name
        self._but = but

    def __getattr__(self, method: str) -> Any:
        """Return a method of the other, with its failpoints; all else as it is."""
        found = getattr(self._inner, method)
        if method in self._but or method.startswith("_") or not callable(found):
            return found
        return _between(found, f"{self._name}.{method}")


def _between(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    def called(*args: Any, **more: Any) -> Any:
        reach(f"{name}.before")
        result = method(*args, **more)
        reach(f"{name}.after")
        return result

    return called
