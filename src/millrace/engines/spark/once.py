"""A query's batches, each written to its sinks wholly and once, by transactions of the broker.

Spark runs a batch again that it had not noted as done. Its records carry the batch's mark, so
what the broker committed is known, and not written a second time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from millrace.engines.spark.prepared import Compiled
from millrace.engines.spark.resume import MARGIN_MS
from millrace.errors import OperationFailed
from millrace.model.stream import Promise
from millrace.ports import Row, Transactions, TransactionsOf


@dataclass(slots=True)
class Once:
    """Writes the batches of a query, in their order."""

    writer: Transactions
    checkpoint: Path
    #: The addresses of the streams that it writes.
    streams: Sequence[str]
    #: The batch that may be there already: the first since the start.
    _first: bool = field(default=True)

    def write(self, batch: DataFrame, number: int) -> None:
        """Write a batch; one that is there already only brings state up to date."""
        mark = f"{self._query()} {number}"
        if self._first:
            self.writer.open()
            if self.writer.has(mark, self.streams, self._begun(number) - MARGIN_MS):
                batch.write.format("noop").mode("overwrite").save()
                self._first = False
                return
        self._first = True  # after a failure nobody knows, until it is looked up
        rows = rows_of(batch.toArrow())
        first = next(rows, None)
        if first is not None:
            self.writer.write(mark, _from(first, rows))
        self._first = False

    def _query(self) -> str:
        """What Spark calls this query, for as long as its checkpoint lives."""
        found: str = json.loads((self.checkpoint / "metadata").read_text("utf-8"))["id"]
        return found

    def _begun(self, number: int) -> int:
        """When the batch was planned for the first time."""
        _, about, *_ = (self.checkpoint / "offsets" / str(number)).read_text("utf-8").splitlines()
        return int(json.loads(about)["batchTimestampMs"])


def once_of(query: Compiled, transactions: TransactionsOf | None) -> Once | None:
    """Return what writes a query's batches once, if one of its jobs promises that."""
    order, target = query.order, query.target
    if all(job.promise is not Promise.NO_DUPLICATES for job in order.jobs):
        return None
    streams = [*target.outputs.values(), *target.letters.values()]
    sites = {stream.site or "" for stream in streams}
    if transactions is None or len({str(order.writers.get(site)) for site in sites}) != 1:
        raise OperationFailed(
            "no-transactions",
            f"job {order.job.name} promises no duplicates, and writes to several brokers"
            if transactions is not None
            else f"job {order.job.name} promises no duplicates, and its driver can't keep that",
            "write to streams of one broker, dead letters included",
        )
    sizes = [target.largest(stream) for stream in streams]
    writer = transactions(target.job, order.writers[sites.pop()], max(sizes), min(sizes))
    addresses = list(dict.fromkeys(stream.address for stream in streams))
    return Once(writer, order.place / "checkpoint", addresses)


def _from(first: Row, rest: Iterator[Row]) -> Iterator[Row]:
    yield first
    yield from rest


def rows_of(table: pa.Table) -> Iterator[Row]:
    """Give the rows of a batch as a writer takes them."""
    for batch in table.to_batches():
        headers: Any = batch.column("headers")
        pairs = headers.flatten()
        every = list(
            zip(pairs.field("key").to_pylist(), pairs.field("value").to_pylist(), strict=True)
        )
        ends = (headers.offsets.to_numpy() - headers.offsets[0].as_py()).tolist()
        columns = (batch.column(name).to_pylist() for name in ("topic", "key", "value"))
        parts = batch.column("partition").to_pylist()
        for at, (topic, key, value, part) in enumerate(zip(*columns, parts, strict=True)):
            yield topic, key, value, every[ends[at] : ends[at + 1]], part
