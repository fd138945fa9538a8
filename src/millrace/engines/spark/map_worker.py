"""Runs a plain function over records in Spark's Python workers, Arrow batch by Arrow batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pyarrow as pa

from millrace.engines.spark.fate import DROPPED, MALFORMED, USED
from millrace.engines.spark.lazy import serve
from millrace.engines.spark.typed import Reader, Writer, reader, writer
from millrace.model.policy import ErrorPolicy
from millrace.model.stream import Format

#: What goes in: which input, where the record stood, and the record.
INPUT = ("input", "partition", "position", "key", "value", "times")
#: What comes out, as Spark's SQL declares it; `row` counts the records of a batch.
OUTPUT = (
    "out int, value binary, result_key string, fate int, cause string, index int, "
    "input int, partition int, position long, key binary, payload binary, times string"
)
_CAUSE_CHARACTERS = 300


class StoppedByError(Exception):
    """Ends a job whose error policy is `stop`; to try the same record again can't help."""


@dataclass(frozen=True, slots=True)
class MapTask:
    """What a worker must know: formats of inputs and outputs, and what to do when code fails."""

    function: Callable[[dict[str, Any]], Any]
    #: The private package of its modules, and those that it imports as it runs.
    package: str
    modules: Mapping[str, ModuleType]
    inputs: tuple[tuple[Format, Mapping[str, str]], ...]
    #: By the name that the code gives to an output: its place, format, columns, key, largest.
    outputs: Mapping[str, tuple[int, Format, Mapping[str, str] | None, tuple[str, ...], int]]
    policy: ErrorPolicy
    retries: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Map batches to batches."""
        serve(self.package, self.modules)
        readers = [reader(format_, schema) for format_, schema in self.inputs]
        writers = {
            name: (place, writer(format_, schema), key, largest)
            for name, (place, format_, schema, key, largest) in self.outputs.items()
        }
        work = _Work(self, readers, writers)
        for batch in batches:
            yield work.done(batch)


class _Work:
    """A worker's own state: readers and writers made once."""

    def __init__(
        self,
        task: MapTask,
        readers: list[Reader],
        writers: Mapping[str, tuple[int, Writer, tuple[str, ...], int]],
    ) -> None:
        self._task = task
        self._readers = readers
        self._only = next(iter(writers.values())) if len(writers) == 1 else None
        self._writers = writers

    def done(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch: results, and dead letters of what has none."""
        rows: list[int] = []
        outs: list[int] = []
        values: list[bytes | None] = []
        keys: list[str | None] = []
        fates: list[int] = []
        causes: list[str | None] = []
        indexes: list[int] = []
        inputs: list[Any] = batch.column(0).to_pylist()
        for row, value in enumerate(batch.column(4).to_pylist()):
            record = self._readers[inputs[row]](value)
            if record is None:
                made: list[tuple[int, bytes | None, str | None, int, str | None]] = [
                    (0, None, None, MALFORMED, None)
                ]
            else:
                made = self._made(record)
            for index, (out, data, key, fate, cause) in enumerate(made):
                rows.append(row)
                outs.append(out)
                values.append(data)
                keys.append(key)
                fates.append(fate)
                causes.append(cause)
                indexes.append(index)
        return _batch(batch, rows, (outs, values, keys, fates, causes, indexes))

    def _made(
        self, record: dict[str, Any]
    ) -> list[tuple[int, bytes | None, str | None, int, str | None]]:
        """The rows of a record, or its dead letter when its code gave up."""
        for left in range(self._task.retries, -1, -1):
            try:
                return [self._row(result) for result in _results(self._task.function(record))]
            except Exception as error:
                if left and self._task.policy is ErrorPolicy.RETRY:
                    continue
                cause = f"{type(error).__name__}: {error}"[:_CAUSE_CHARACTERS]
                if self._task.policy is ErrorPolicy.STOP:
                    raise StoppedByError(cause) from error
                return [(0, None, None, DROPPED, cause)]
        return []

    def _row(self, result: Any) -> tuple[int, bytes | None, str | None, int, str | None]:
        if self._only is not None:
            target = self._only
            if isinstance(result, tuple):
                result = result[1]
        else:
            name, result = _named(result, self._writers)
            target = self._writers[name]
        place, write, columns, largest = target
        data = write(result)
        if len(data) > largest:
            return place, None, None, DROPPED, f"a result of {len(data)} bytes is too large"
        key = _text(result.get(columns[0])) if len(columns) == 1 else _joined(result, columns)
        return place, data, key, USED, None


def _named(result: Any, known: Mapping[str, Any]) -> tuple[str, Any]:
    """The output and the record of a result of a job that has several outputs."""
    if not isinstance(result, tuple) or len(result) != 2 or result[0] not in known:
        message = f"a result must be a pair of an output's name ({', '.join(known)}) and a record"
        raise TypeError(message)
    return result


def _text(value: Any) -> str | None:
    """A key column as text, as Spark's own cast makes it."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _joined(result: Any, columns: tuple[str, ...]) -> str | None:
    if not columns:
        return None
    from orjson import dumps  # noqa: PLC0415 - rare

    return dumps({name: result.get(name) for name in columns}, default=str).decode()


def _results(returned: Any) -> Iterable[Any]:
    """None, one result, or many: what a function may return."""
    if returned is None:
        return ()
    if isinstance(returned, dict | bytes | str | tuple):
        return (returned,)
    return returned  # type: ignore[no-any-return]


def _batch(batch: pa.RecordBatch, rows: list[int], made: tuple[list[Any], ...]) -> pa.RecordBatch:
    outs, values, keys, fates, causes, indexes = made
    where = pa.array(rows, pa.int32())
    taken = (
        batch
        if len(rows) == batch.num_rows and rows == list(range(len(rows)))
        else batch.take(where)
    )
    dead = [None if fate == USED else True for fate in fates]
    payload = pa.nulls(len(rows), pa.binary())
    if any(dead):
        column = taken.column(4).to_pylist()
        payload = pa.array(
            [v if d else None for v, d in zip(column, dead, strict=True)], pa.binary()
        )
    return pa.RecordBatch.from_arrays(
        [
            pa.array(outs, pa.int32()), pa.array(values, pa.binary()), pa.array(keys, pa.string()),
            pa.array(fates, pa.int32()), pa.array(causes, pa.string()),
            pa.array(indexes, pa.int32()), taken.column(0), taken.column(1), taken.column(2),
            taken.column(3), payload, taken.column(5),
        ],
        names=[part.strip().split(" ")[0] for part in OUTPUT.split(",")],
    )  # fmt: skip
