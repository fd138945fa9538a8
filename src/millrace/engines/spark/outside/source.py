"""Any feed as a source of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from millrace.engines.spark.outside.feed import Ends, Entry, Feed, Forgetful, Part
from millrace.engines.spark.outside.feeds import feed_of

#: What Spark calls it.
FORMAT = "millrace-outside"
#: The columns that a record has.
COLUMNS = (
    "key binary, value binary, partition int, offset long, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)
_BATCH = 10_000
_FIELDS: list[tuple[str, pa.DataType]] = [
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
    ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
]
_ARROW = pa.schema(_FIELDS)


class Outside(DataSource):
    """What Spark makes of its options: see `feed_of`."""

    @classmethod
    def name(cls) -> str:
        """Return what it is called."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of a record."""
        return COLUMNS

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return what reads."""
        return OutsideReader(self.options["read"])


class _Slice(InputPartition):
    """A part on its way to a worker."""

    def __init__(self, part: Part) -> None:
        super().__init__(None)
        self.part = part


class OutsideReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a feed; one object asks for ends, others in workers read."""

    def __init__(self, description: str) -> None:
        self._description = description
        self._feed: Feed | None = None

    @property
    def feed(self) -> Feed:
        """The feed, opened where it is needed."""
        if self._feed is None:
            self._feed = feed_of(self._description)
        return self._feed

    def __getstate__(self) -> str:
        """Only the description travels."""
        return self._description

    def __setstate__(self, description: str) -> None:
        """Begin anew at the other end."""
        self.__init__(description)  # type: ignore[misc]

    def initialOffset(self) -> Ends:  # noqa: N802 - Spark's name
        """Return where a first reader begins."""
        return self.feed.begin()

    def latestOffset(self, start: Any, limit: ReadLimit) -> Ends:  # noqa: ARG002, N802
        """Return up to where there is something to read."""
        return self.feed.latest(start)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read what is there now, and nothing that comes later."""
        self.feed.freeze()

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        """Return what lies between."""
        return [_Slice(part) for part in self.feed.parts(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the records of a part, many at a time."""
        if not isinstance(partition, _Slice):
            return
        part = partition.part
        entries = self.feed.records(part)
        while taken := list(islice(entries, _BATCH)):
            yield _batch(part.number, taken)

    def commit(self, end: Any) -> None:
        """Let a feed go of what is done; others keep it by themselves."""
        if isinstance(self.feed, Forgetful):
            self.feed.committed(end)

    def stop(self) -> None:
        """Nobody asks any more."""
        if self._feed is not None:
            self._feed.close()


def _batch(number: int, entries: list[Entry]) -> Any:
    columns: list[Any] = [
        [entry.key for entry in entries],
        [entry.value for entry in entries],
        [number] * len(entries),
        [entry.position for entry in entries],
        [entry.time for entry in entries],
        [[{"key": k, "value": v} for k, v in entry.headers] or None for entry in entries],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
