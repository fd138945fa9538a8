"""What Spark tells of a job's query: each job has a session, each session its own listeners."""

from __future__ import annotations

import json
from threading import Event
from typing import Any, ClassVar, Protocol

from millrace.engines.spark.java import java_class

#: How long the news of a query may wait for its start to return.
KNOWN_SECONDS = 30.0


class Hearer(Protocol):
    """Who is told, by the job's name."""

    def progressed(self, name: str, event: dict[str, Any]) -> None:
        """A query reports a batch."""

    def terminated(self, name: str, run: str, error: str | None) -> None:
        """A run of a query ended."""


class Listener:
    """Hears of one job's query."""

    def __init__(self, name: str, hearer: Hearer) -> None:
        self._name = name
        self._hearer = hearer
        #: Set when the driver knows the query: a short one may have ended before.
        self.known = Event()

    @property
    def _jlistener(self) -> Any:
        """The listener as Java knows it: Spark's own would ask for every field of every event.

        That is hundreds of calls at each batch boundary, while records wait for the processor.
        """
        return java_class("PythonStreamingQueryListenerWrapper")(_Heard(self))

    def progressed(self, document: str) -> None:
        """Pass a batch on."""
        self.known.wait(KNOWN_SECONDS)
        self._hearer.progressed(self._name, json.loads(document))

    def terminated(self, run: str, error: str | None) -> None:
        """Pass the end on."""
        self.known.wait(KNOWN_SECONDS)
        self._hearer.terminated(self._name, run, error)


class _Heard:
    """What Java calls."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Nothing to do: the start is known."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """A batch is committed."""
        self._listener.progressed(event.progress().json())

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """The query ended."""
        error = event.exception()
        run = str(event.runId().toString())
        self._listener.terminated(run, error.get() if error.isDefined() else None)

    class Java:
        """How Python's bridge to Java knows whose methods these are."""

        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]
