"""A Flink of our own: a session cluster that lives and ends with the agent.

When it was killed, its jobs are started again from their last checkpoints, which are in the jobs'
own folders.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from millrace.engines.flink.calls import Calls, address_of
from millrace.engines.flink.cluster import Cluster, libraries
from millrace.engines.flink.engine import FlinkEngine
from millrace.engines.flink.rest import FlinkRest
from millrace.engines.flink.settings import MARK, checked
from millrace.errors import OperationFailed
from millrace.machine import Java

READY_SECONDS: Final = 120.0
GRACE_SECONDS: Final = 3.0
_PAUSE: Final = 0.1
#: A TaskManager that died is started again at once; one that dies again and again within so many
#: seconds, each time so many seconds later.
_WORKER_SECONDS, _WORKER_PAUSE = 30.0, 3.0


class ManagedFlink(FlinkEngine):
    """A cluster in a folder, and its jobs; any thread may call."""

    local = True

    def __init__(self, place: Path, java: Java, options: Mapping[str, str] | None = None) -> None:
        super().__init__("http://127.0.0.1")  # its port is known when it is started
        self.place = place
        self.cluster = Cluster(place, java, checked(options or {}))
        self.runs.absent_seconds = 0.0
        self._launching = threading.Lock()
        self._ready = False
        #: Whether somebody wants it: after an end nothing is started by itself.
        self._wanted = False
        #: When the TaskManager was started, and how often it was started again before, in a row.
        self._worker = (0.0, 0)

    @property
    def alive(self) -> bool:
        """Whether it is up."""
        return self._ready and self.cluster.runs("jobmanager")

    @property
    def log(self) -> Path:
        """What its processes say."""
        return self.cluster.log

    def launch(self) -> None:
        """Begin to start it and return at once; one that runs is left alone."""
        with self._launching:
            if not self.cluster.runs("jobmanager"):
                libraries()
                self._ready = False
                self.runs.gone(self.log)
                self.cluster.launch()
                self._worker = (time.monotonic(), 0)
                self.rest = FlinkRest(Calls(address_of(self.cluster.url)))
            self._wanted = True
        super().launch()

    def wait(self) -> None:
        """Return when it is up, with its TaskManager; raises where it does not come up."""
        self.launch()
        until = time.monotonic() + READY_SECONDS
        while not self._up():
            if not self.cluster.runs("jobmanager"):
                raise OperationFailed(
                    "flink-ended",
                    "Flink's JobManager ended while it was started",
                    f"see {self.log}",
                    transient=True,
                )
            if time.monotonic() > until:
                self.kill()
                raise OperationFailed(
                    "flink-slow",
                    f"Flink did not start in {READY_SECONDS:.0f} s",
                    f"see {self.log}",
                    transient=True,
                )
            time.sleep(_PAUSE)

    def _up(self) -> bool:
        """Whether it answers, is the one that was started, and has its TaskManager."""
        if not self._ready:
            try:
                ours = self.rest.settings().get(MARK) == self.cluster.mark
                self._ready = ours and self.rest.slots().total > 0
            except OperationFailed:
                return False
        return self._ready

    def _look(self) -> None:
        with self._launching:
            if self._wanted and not self.cluster.runs("jobmanager"):
                self._ready = False
                self.runs.gone(self.log)
                return
            self._tend()
        super()._look()

    def _tend(self) -> None:
        """Start a TaskManager that died again; Flink starts its jobs again in it."""
        if not self._wanted or self.cluster.runs("taskmanager"):
            return
        since, again = self._worker
        lived = time.monotonic() - since
        again = again if lived < _WORKER_SECONDS else 0
        if lived >= _WORKER_PAUSE * again:
            self.cluster.start("taskmanager")
            self._worker = (time.monotonic(), again + 1)

    def close(self) -> None:
        """Stop every job with a savepoint and end it; what can't be saved has its checkpoint."""
        super().close()
        self._end(GRACE_SECONDS)

    def kill(self, grace: float = 0.0) -> None:
        """End its processes; see the port."""
        self._watch.end()
        self._end(grace)

    def _end(self, grace: float) -> None:
        with self._launching:
            self._wanted, self._ready = False, False
            self.cluster.end(grace)
            self.runs.gone(self.log)
