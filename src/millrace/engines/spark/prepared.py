"""A query that is made and not started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import DataFrame

from millrace.engines.spark.carry import Operators
from millrace.engines.spark.checkpoint import read_start
from millrace.engines.spark.farm import gathers, in_turn
from millrace.engines.spark.formats import Schema
from millrace.engines.spark.kept_fields import fields_before
from millrace.engines.spark.ledger import Share
from millrace.engines.spark.order import same_order
from millrace.engines.spark.outside.bridge import outside
from millrace.engines.spark.outside.carried import by_spark
from millrace.engines.spark.sink import Target
from millrace.engines.spark.source import Source
from millrace.ports import JobOrder


@dataclass(frozen=True, slots=True)
class Compiled:
    """A query, ready to be started in either mode."""

    order: JobOrder
    target: Target
    #: Rows for the sink; with the columns of `finish` where origins are carried.
    rows: DataFrame
    operators: Operators
    #: Whether each row knows the record it came from.
    carries: bool
    #: By stream, the columns that its writer here makes.
    schemas: Mapping[str, Schema]
    letters: bool
    #: The inputs on brokers.
    sources: Sequence[Source] = field(default=())
    #: Whether each record gives one row at most, and all go to one stream.
    one_to_one: bool = False
    #: How each job's ledger is read from what the query counts.
    shares: Sequence[Share] = field(default=())
    #: The fields of what it keeps per key, if it does.
    fields: Mapping[str, str] | None = None

    def fits(self, order: JobOrder) -> Compiled | None:
        """Return it for an order that it was made for, perhaps at another place; or None.

        What is outside, what was kept and where to begin are at a place.
        """
        if not same_order(self.order, order) or not self._writes(order):
            return None
        if self.order.place == order.place:
            return self
        if self.operators.stateful or _bound(self.order.place) or _bound(order.place):
            return None
        streams = [source.stream for source in self.sources]
        if any(outside(it.name) or not by_spark(order, it) for it in streams):
            return None
        return replace(self, order=order)

    def _writes(self, order: JobOrder) -> bool:
        """Whether it writes the columns of an order, which may know those of other writers, too."""
        known = {name: order.pipeline.streams[name].schema for name in self.schemas
                 if name in order.pipeline.streams}  # fmt: skip
        return all(
            schema is None or list(schema.items()) == list(self.schemas[name].items())
            for name, schema in known.items()
            if self.order.pipeline.streams[name].schema is None
        )

    @property
    def resumes(self) -> bool:
        """Whether a successor can tell from the sinks what was written: see `resume`.

        It can't where results are not written in the order of their records, as those of keys are.
        """
        return self.carries and all(job.state is None and in_turn(job) for job in self.order.jobs)

    @property
    def gathers(self) -> bool:
        """Whether each batch must be put in the order of its records before it is written."""
        return any(gathers(job) for job in self.order.jobs)

    @property
    def only(self) -> str | None:
        """The stream that gets a row for each record used, if there is one."""
        alone = self.one_to_one and len(self.order.jobs) == 1
        return next(iter(self.target.outputs)) if alone else None


def _bound(place: Path) -> bool:
    """Whether there is something at a place by which a query is made."""
    return bool(read_start(place)) or fields_before(place) is not None
