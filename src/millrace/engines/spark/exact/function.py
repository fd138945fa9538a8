"""Closes windows with a function of the user's: over all records, or by adding and taking out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import orjson
import pandas as pd

from millrace.engines.spark.exact.held import Held, unpacked
from millrace.engines.spark.exact.marking import LETTER, RESULT
from millrace.engines.spark.exact.totals import Totals
from millrace.engines.spark.fate import USED
from millrace.engines.spark.map_worker import Made, MapTask, Work
from millrace.engines.spark.seats import PARTITIONS


@dataclass(frozen=True, slots=True)
class Span:
    """What the user's function may ask of a window: times, or places where it counts records."""

    start: Any
    end: Any
    key: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FunctionTask:
    """What a worker must know of the function of a window."""

    map: MapTask
    #: Takes a record out again; the function then is one that adds a record to a total.
    inverse: Callable[[Any, Any], Any] | None = None
    slide: int = 0
    length: int = 0
    #: Whether windows are spans of time.
    timed: bool = True
    #: Another one where the code is: totals of other code are not gone on with.
    version: str = ""

    def work(self, totals: MutableMapping[int, bytes] | None = None) -> FunctionWork:
        """Return what works in a worker; `totals`, by where windows begin, are kept for later."""
        return FunctionWork(self, self.map.work(), {} if totals is None else totals)


@dataclass(slots=True)
class FunctionWork:
    """A worker's own part."""

    task: FunctionTask
    work: Work
    totals: MutableMapping[int, bytes]
    _takes_span: bool = field(init=False)

    def __post_init__(self) -> None:
        """Find out what the function wants to know."""
        self._takes_span = self.task.inverse is None and _parameters(self.task.map.function) > 1

    def results(self, table: Any) -> Any:
        """Return the rows of windows that closed: results, and letters where the code gave up.

        With an inverse none may follow in a later call that began earlier.
        """
        if self.task.inverse is None:
            return _frame(self._rows(table, None))
        rows: list[dict[str, Any]] = []
        for begin, part in table.groupby("begin"):  # in their order: each is made of the one before
            totals = Totals(self.task, self.totals, int(begin))
            rows += self._rows(part, totals)
            totals.keep()
        return _frame(rows)

    def _rows(self, table: Any, totals: Totals | None) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for begin, end, key, held in zip(
            table["begin"].tolist(), table["end"].tolist(), table["key"], table["held"], strict=True
        ):
            records = unpacked(held)
            span = Span(self._moment(begin), self._moment(end), orjson.loads(key) if key else {})
            if totals is None:
                call = self._over_all(records, span)
            else:
                call = partial(self._reduced, totals, key or "", records, span)
            window = {"begin": begin, "end": end, "key": key}
            rows += (self._row(window, made, records[-1]) for made in self.work.given(call))
        return rows

    def _over_all(self, records: list[Held], span: Span) -> Callable[[], Any]:
        read = [self._read(record) for record in records]
        function: Any = self.task.map.function
        return partial(function, read, span) if self._takes_span else partial(function, read)

    def _read(self, record: Held) -> Any:
        return self.work.read(record.source // PARTITIONS, record.value)

    def _reduced(self, totals: Totals, key: str, records: list[Held], span: Span) -> Any:
        """The total of a window, from that of the one before where there is one."""
        add: Any = self.task.map.function
        take_out: Any = self.task.inverse
        total, leaving, entering = totals.before(key, records)
        for record in leaving:
            total = take_out(total, self._read(record))
        for record in entering:
            total = add(total, self._read(record))
        totals.add(key, total, records)
        fields = {"start": span.start, "end": span.end, **span.key, **total}
        known = self._columns
        return {n: value for n, value in fields.items() if n in total or not known or n in known}

    @property
    def _columns(self) -> frozenset[str]:
        """The columns of the output, where they are declared."""
        ((_, _, schema, _, _),) = self.task.map.outputs.values()
        return frozenset(schema or ())

    def _moment(self, at: int) -> Any:
        return datetime.fromtimestamp(at / 1e6, UTC) if self.task.timed else at

    @staticmethod
    def _row(window: dict[str, Any], made: Made, last: Held) -> dict[str, Any]:
        out, value, result_key, fate, cause = made
        if fate == USED:
            return {**window, "kind": RESULT, "fate": fate, "value": value,
                    "result_key": result_key, "out": out}  # fmt: skip
        return {
            **window,
            "kind": LETTER,
            "fate": fate,
            "cause": cause,
            "reader": last.source // PARTITIONS,
            "partition": last.source % PARTITIONS,
            "position": last.position,
            "payload": last.value,
        }


def _parameters(function: Any) -> int:
    try:
        return len(inspect.signature(function).parameters)
    except (ValueError, TypeError):
        return 1


_NUMBERS = ("begin", "end", "kind", "fate", "out", "reader", "partition", "position")
_OBJECTS = ("key", "value", "result_key", "cause", "payload")


def _frame(rows: list[dict[str, Any]]) -> Any:
    columns: dict[str, Any] = {name: [row.get(name, 0) for row in rows] for name in _NUMBERS}
    for name in _OBJECTS:
        columns[name] = pd.Series([row.get(name) for row in rows], dtype=object)
    return pd.DataFrame(columns)
