"""A site's workshop with failpoints around all that it does, for tests that end its agent there."""

from __future__ import annotations

from typing import Any, cast

from millrace.agent.making import Workshop
from millrace.machine.failpoint import Pointed, reach
from millrace.model.pipeline import Pipeline


class PointedWorkshop(Pointed):
    """Its broker and engines have failpoints, too: `broker.drop.before`, `engine.start.after`."""

    def __init__(self, inner: Workshop) -> None:
        super().__init__(inner, "workshop")

    def broker(self, file: Pipeline) -> Any:
        """Return the site's broker."""
        return Pointed(self._inner.broker(file), "broker")

    def engine(self, file: Pipeline, query: str) -> Any:
        """Return the engine of a query; to bring it up is an effect of its own."""
        reach("workshop.engine.before")
        found = self._inner.engine(file, query)
        reach("workshop.engine.after")
        return Pointed(found, "engine")


def pointed(workshop: Workshop) -> Workshop:
    """Return a workshop with failpoints."""
    return cast("Workshop", PointedWorkshop(workshop))
