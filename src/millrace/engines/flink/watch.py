"""A thread that looks at a cluster about once a second, and more often while somebody waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

SECONDS: Final = 1.0
#: While a job is about to start.
HURRY_SECONDS: Final = 0.1


class Watch:
    """Calls `look` again and again, from `start` to `end`; it must not raise."""

    def __init__(self, look: Callable[[], None], name: str) -> None:
        self._look = look
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._woken = threading.Event()
        self._waiting = 0

    def start(self) -> None:
        """Begin, unless it has begun."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._over = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._over,), name=self._name, daemon=True
                )
                self._thread.start()

    def end(self, seconds: float = 10.0) -> None:
        """End, and return when nothing is looked at any more."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._over.set()
            self._woken.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Look more often for the time of a block."""
        with self._lock:
            self._waiting += 1
        self._woken.set()
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1

    def _run(self, over: threading.Event) -> None:
        while not over.is_set():
            began = time.monotonic()
            self._look()
            # What looking costs is waited, too: a slow cluster is not asked without a pause.
            spent = time.monotonic() - began
            wait = max(HURRY_SECONDS, spent) if self._waiting else SECONDS
            self._woken.wait(wait)
            self._woken.clear()
