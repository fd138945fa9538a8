"""Runs a plain function over records in Spark's Python workers, Arrow batch by Arrow batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
#: The same inside a query of several jobs: which input, the record, if it is dead already, and
#: where it came from, which only passes.
INSIDE_INPUT = ("reader", "key", "value", "bad", "origin")
INSIDE_OUTPUT = (
    "out int, value binary, result_key string, fate int, cause string, index int, "
    "reader int, key binary, bad boolean, payload binary, origin {origin}"
)
#: The most results that a record may have inside a query of several jobs.
MOST_RESULTS = 2**20
_CAUSE_CHARACTERS = 300
#: A result: which output, value, key, fate, and the cause where there is none.
Made = tuple[int, bytes | None, str | None, int, str | None]


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
    #: Whether it stands inside a query of several jobs.
    inside: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Map batches to batches."""
        work = self.work()
        for batch in batches:
            yield work.done_inside(batch) if self.inside else work.done(batch)

    def work(self) -> Work:
        """Return what works in a worker."""
        serve(self.package, self.modules)
        readers = [reader(format_, schema) for format_, schema in self.inputs]
        writers = {
            name: (place, writer(format_, schema), key, largest)
            for name, (place, format_, schema, key, largest) in self.outputs.items()
        }
        return Work(self, readers, writers)


class Work:
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
        columns: list[list[Any]] = [batch.column(place).to_pylist() for place in (0, 4)]
        inputs, values = columns
        rows, made = self._all(inputs, values, ())
        taken = _taken(batch, rows)
        passed = [taken.column(place) for place in (0, 1, 2, 3)]
        payload = _payload(taken.column(4), made[3])
        return _batch(OUTPUT, [*_arrays(made), *passed, payload, taken.column(5)])

    def done_inside(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Do the same inside a query of several jobs; what is dead already only passes."""
        columns: list[list[Any]] = [batch.column(place).to_pylist() for place in (0, 2, 3)]
        inputs, values, bad = columns
        rows, made = self._all(inputs, values, bad)
        if max(made[5], default=0) >= MOST_RESULTS:
            message = f"a record has more than {MOST_RESULTS} results; write fuse: never"
            raise StoppedByError(message)
        taken = _taken(batch, rows)
        passed = [taken.column(place) for place in (0, 1, 3)]
        payload = _payload(taken.column(2), made[3])
        return _batch(INSIDE_OUTPUT, [*_arrays(made), *passed, payload, taken.column(4)])

    def _all(
        self, inputs: Sequence[int], values: Sequence[bytes | None], dead: Sequence[bool]
    ) -> tuple[list[int], tuple[list[Any], ...]]:
        """The results of all records, column by column, and which record each is of."""
        rows: list[int] = []
        outs: list[int] = []
        results: list[bytes | None] = []
        keys: list[str | None] = []
        fates: list[int] = []
        causes: list[str | None] = []
        indexes: list[int] = []
        for row, value in enumerate(values):
            record = None if dead and dead[row] else self._readers[inputs[row]](value)
            made: list[Made] = [(0, None, None, MALFORMED, None)]
            if record is not None:
                made = self.given(partial(self._task.function, record))
            for index, (out, data, key, fate, cause) in enumerate(made):
                rows.append(row)
                outs.append(out)
                results.append(data)
                keys.append(key)
                fates.append(fate)
                causes.append(cause)
                indexes.append(index)
        return rows, (outs, results, keys, fates, causes, indexes)

    def read(self, place: int, value: bytes | None) -> dict[str, Any] | None:
        """Return a record of an input; None for one that is malformed."""
        return self._readers[place](value)

    def made(self, returned: Any) -> list[Made]:
        """Return the rows of what the user's code returned; raises where these can't be written."""
        return [self._row(result) for result in _results(returned)]

    def given(self, call: Callable[[], Any]) -> list[Made]:
        """Return the rows of what the user's code returns, or a dead letter when it gave up."""
        return self.tried(lambda: self.made(call()))

    def tried(self, call: Callable[[], list[Made]]) -> list[Made]:
        """Return rows as the job's error policy says: again, none, or a dead letter."""
        for left in range(self._task.retries, -1, -1):
            try:
                return call()
            except Exception as error:
                if left and self._task.policy is ErrorPolicy.RETRY:
                    continue
                cause = f"{type(error).__name__}: {error}"[:_CAUSE_CHARACTERS]
                if self._task.policy is ErrorPolicy.STOP:
                    raise StoppedByError(cause) from error
                return [(0, None, None, DROPPED, cause)]
        return []

    def _row(self, result: Any) -> Made:
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


def _taken(batch: pa.RecordBatch, rows: list[int]) -> pa.RecordBatch:
    """The records once for each of their results."""
    if len(rows) == batch.num_rows and rows == list(range(len(rows))):
        return batch
    return batch.take(pa.array(rows, pa.int32()))


def _payload(values: Any, fates: Sequence[int]) -> Any:
    """The record itself where it has no result, for its dead letter."""
    if all(fate == USED for fate in fates):
        return pa.nulls(len(fates), pa.binary())
    pairs = zip(values.to_pylist(), fates, strict=True)
    return pa.array([None if fate == USED else value for value, fate in pairs], pa.binary())


def _arrays(made: tuple[list[Any], ...]) -> list[Any]:
    kinds = (pa.int32(), pa.binary(), pa.string(), pa.int32(), pa.string(), pa.int32())
    return [pa.array(column, kind) for column, kind in zip(made, kinds, strict=True)]


def _batch(declared: str, columns: list[Any]) -> pa.RecordBatch:
    names = [part.strip().split(" ")[0] for part in declared.split(",")]
    return pa.RecordBatch.from_arrays(columns, names=names)
