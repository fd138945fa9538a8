"""What a site is made of: the port between who keeps a site and who knows its machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from millrace.model.pipeline import Pipeline
from millrace.ports import Broker, Engine, JobOrder, Progress
from millrace.ports.link import JobGoal


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a site is told of others: brokers by site; the artifacts of a query's code and state."""

    brokers: Mapping[str, str] = field(default_factory=dict)
    code: str | None = None
    parcel: str | None = None


class Workshop(Protocol):
    """A site's broker, engines and folders, made when they are first needed. Any thread may call.

    What raises may be tried again where the failure is transient.
    """

    def broker(self, file: Pipeline) -> Broker:
        """Return the site's broker by a file."""
        ...

    def engine(self, file: Pipeline, query: str) -> Engine:
        """Return the engine that runs a query, up and ready."""
        ...

    def order(
        self, file: Pipeline, query: str, goal: JobGoal | None, around: Surroundings
    ) -> JobOrder:
        """Return all that an engine needs for a query; its folder is ready to begin in.

        Without a goal it is only looked at, where nothing is kept.
        """
        ...

    def ends(
        self, file: Pipeline, stream: str, around: Surroundings, query: str | None = None
    ) -> dict[int, int]:
        """Return where a stream ends now, of whatever site.

        Of one that nobody keeps, where that ends that was received for a `query`.
        """
        ...

    def received(self, file: Pipeline, query: str) -> Mapping[str, Mapping[str, int]]:
        """Return what the receivers of a query counted, by stream: none where it has none."""
        ...

    def progress(self, file: Pipeline, query: str, goal: JobGoal) -> Mapping[str, Progress]:
        """Return how far a query was that does not run, and each of its jobs if it has several."""
        ...

    def parcel(self, query: str, number: int) -> str:
        """Make an artifact of a folder of a query that does not run."""
        ...

    def log(self, file: Pipeline, query: str) -> Path:
        """Return the file to which the engine of a query tells what it does."""
        ...

    def halt(self) -> None:
        """Stop all queries as planned and end every engine; none is started any more."""
        ...

    def kill(self) -> None:
        """End every process at once; what was written is found by the next start."""
        ...

    def close(self) -> None:
        """End what is left: the broker, which other sites may use until their engines are gone."""
        ...
