"""Partial aggregates of windows, as tables: made from records, put together, finished.

A table has a row for each window and key: `begin` and `end` of the window in microseconds, the
`key` as text, how many `rows` it has, and for each argument `n<i>` (how many are not null), `s<i>`
(their exact sum), `x<i>` (the sum of those that are no number), `lo<i>` and `hi<i>`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from millrace.engines.spark.exact import held, sums
from millrace.engines.spark.exact.aggregates import Aggregates

KEYS = ["begin", "end", "key"]


@dataclass(frozen=True, slots=True)
class Layout:
    """What a table of partial aggregates holds."""

    aggregates: Aggregates
    #: `long` or `double`, for each argument.
    kinds: tuple[str, ...]
    #: Whether the records themselves are kept, for a function of the user's.
    holds: bool = False

    def columns(self) -> dict[str, str]:
        """Return the columns of a table and their types in Spark's SQL."""
        found = {"begin": "long", "end": "long", "key": "string", "rows": "long"}
        if self.holds:
            found["held"] = "binary"
        for at, kind in enumerate(self.kinds):
            found[f"n{at}"] = "long"
            if self.aggregates.uses(at, "sum", "mean"):
                found[f"s{at}"] = "binary"
                if kind == "double":
                    found[f"x{at}"] = "double"
            if self.aggregates.uses(at, "min"):
                found[f"lo{at}"] = kind
            if self.aggregates.uses(at, "max"):
                found[f"hi{at}"] = kind
        return found

    def results(self) -> dict[str, str]:
        """Return the columns of a finished window beside begin, end and key."""
        if self.holds:
            return {"value": "binary", "result_key": "string", "out": "int"}
        found = {}
        for at, column in enumerate(self.aggregates.columns):
            kind = "long" if column.argument is None else self.kinds[column.argument]
            found[f"r{at}"] = {"count": "long", "mean": "double"}.get(column.function, kind)
        return found

    def names(self) -> dict[str, str]:
        """Return what the job calls each of these columns, where it names them."""
        return {f"r{at}": column.name for at, column in enumerate(self.aggregates.columns)}


def of_records(layout: Layout, records: Any, begin: Any, end: Any) -> Any:
    """Return the table of records that are in a window each.

    `records` has the columns `key`, and for each argument `a<i>` (0 where it is null) and `v<i>`.
    """
    groups, index = _groups({"begin": begin, "end": end, "key": records["key"].to_numpy()})
    count = len(index)
    table = {name: index[name].to_numpy() for name in KEYS}
    table["rows"] = np.bincount(groups, minlength=count)
    if layout.holds:
        table["held"] = _objects(held.by_group(records, groups, count))
    for at, kind in enumerate(layout.kinds):
        values, there = records[f"a{at}"].to_numpy(), records[f"v{at}"].to_numpy(dtype=bool)
        within = groups if there.all() else groups[there]
        values = values if there.all() else values[there]
        table[f"n{at}"] = np.bincount(within, minlength=count)
        table |= _argument(layout, at, kind, values, within, count)
    return pd.DataFrame(table)


def _argument(
    layout: Layout, at: int, kind: str, values: Any, groups: Any, count: int
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if layout.aggregates.uses(at, "sum", "mean"):
        found[f"s{at}"] = _sums(kind, values, groups, count)
        if kind == "double":
            odd = ~np.isfinite(values)
            found[f"x{at}"] = np.bincount(groups[odd], weights=values[odd], minlength=count)
    for name, function, worst in (("lo", np.fmin, "most"), ("hi", np.maximum, "least")):
        if layout.aggregates.uses(at, "min" if name == "lo" else "max"):
            best = np.full(count, _edge(kind, worst), dtype=_TYPES[kind])
            function.at(best, groups, values)
            found[f"{name}{at}"] = best
    return found


_TYPES = {"long": np.int64, "double": np.float64}


def _edge(kind: str, which: str) -> Any:
    """What any other value is better than."""
    if kind == "double":
        return np.inf if which == "most" else -np.inf
    limits = np.iinfo(np.int64)
    return limits.max if which == "most" else limits.min


def _sums(kind: str, values: Any, groups: Any, count: int) -> Any:
    if kind == "double":
        finite = np.isfinite(values)
        if not finite.all():
            values, groups = values[finite], groups[finite]
        found = sums.of_doubles(values, groups, count)
    else:
        found = sums.of_integers(values.astype(np.int64), groups, count)
    return _objects(sums.packed(total) for total in found)


def _objects(values: Any) -> Any:
    items = list(values)
    found = np.empty(len(items), dtype=object)
    found[:] = items
    return found


def _groups(columns: dict[str, Any]) -> tuple[Any, Any]:
    """Number the rows by the values of some columns; also return the values of each number."""
    codes = np.zeros(len(next(iter(columns.values()))), dtype=np.int64)
    for values in columns.values():
        own, known = pd.factorize(values, use_na_sentinel=False)
        codes = codes * len(known) + own
    groups, _ = pd.factorize(codes)
    _, first = np.unique(groups, return_index=True)
    return groups, pd.DataFrame({name: values[first] for name, values in columns.items()})


def merged(layout: Layout, tables: Any) -> Any:
    """Return one table of several, each window and key once."""
    whole = pd.concat(tables, ignore_index=True) if len(tables) > 1 else tables[0]
    groups, index = _groups({name: whole[name].to_numpy() for name in KEYS})
    if len(index) == len(whole):
        return whole
    return regrouped(layout, whole, groups, index)


def regrouped(layout: Layout, whole: Any, groups: Any, index: Any) -> Any:
    """Return a table with the rows of a group as one; `index` has the keys of each group."""
    count = len(index)
    table = {name: index[name].to_numpy() for name in KEYS}
    for name in layout.columns():
        if name in KEYS:
            continue
        values = whole[name].to_numpy()
        if name == "held":
            table[name] = _objects(held.joined(values, groups, count))
        elif name.startswith("s"):
            totals = [0] * count
            for group, data in zip(groups, values, strict=True):
                totals[group] += sums.unpacked(data)
            table[name] = _objects(sums.packed(total) for total in totals)
        elif name[:2] in ("lo", "hi"):
            kind = layout.kinds[int(name[2:])]
            best = np.full(count, _edge(kind, "most" if name[:2] == "lo" else "least"))
            (np.fmin if name[:2] == "lo" else np.maximum).at(best, groups, values)
            table[name] = best.astype(_TYPES[kind])
        else:
            total = np.zeros(count, dtype=values.dtype)
            np.add.at(total, groups, values)
            table[name] = total
    return pd.DataFrame(table)


def finished(layout: Layout, table: Any) -> Any:
    """Return the results of windows: begin, end, key and a column for each aggregate."""
    found = {name: table[name].to_numpy() for name in KEYS}
    for at, column in enumerate(layout.aggregates.columns):
        found[f"r{at}"] = _result(layout, table, column.function, column.argument)
    return pd.DataFrame(found)


def _result(layout: Layout, table: Any, function: str, at: int | None) -> Any:
    if at is None:
        return table["rows"].to_numpy()
    count = table[f"n{at}"].to_numpy()
    if function == "count":
        return count
    if function in ("min", "max"):
        values = table[f"{'lo' if function == 'min' else 'hi'}{at}"].to_numpy()
        return _objects(v.item() if n else None for v, n in zip(values, count, strict=True))
    doubles = layout.kinds[at] == "double"
    odd = table[f"x{at}"].to_numpy() if doubles else np.zeros(len(table))
    totals = [sums.unpacked(data) for data in table[f"s{at}"]]
    rows = zip(totals, count, odd, strict=True)
    return _objects(_total(function, t, int(n), float(x), doubles=doubles) for t, n, x in rows)


def _total(function: str, total: int, count: int, odd: float, *, doubles: bool) -> Any:
    if count == 0:
        return None
    if odd != 0:  # infinite, or no number
        return odd
    if function == "mean":
        return sums.quotient(total, count, doubles=doubles)
    return sums.double(total) if doubles else _wrapped(total)


def _wrapped(total: int) -> int:
    """A whole number as Spark's sums have it: beyond 64 bits they begin anew."""
    return (total + 2**63) % 2**64 - 2**63


def stored(table: Any) -> bytes:
    """Return a table as bytes that know their columns."""
    batch = pa.RecordBatch.from_pandas(table, preserve_index=False)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def restored(data: bytes) -> Any:
    """Return a table of its bytes."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all().to_pandas()
