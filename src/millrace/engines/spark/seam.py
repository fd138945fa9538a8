"""Between two jobs of one query: a stream that is on no broker.

What the one wrote is what the other reads, as typed rows. It is counted here, so that each job has
its ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.types import StructType

from millrace.engines.spark.carry import carried
from millrace.engines.spark.fate import USED
from millrace.engines.spark.fit import fields_of
from millrace.engines.spark.formats import Schema, decoded, quoted, schema_of, text
from millrace.engines.spark.passing import Passing
from millrace.engines.spark.plans import analyzed, counted, frame_of
from millrace.engines.spark.sink import FATE, VALUE, declared_key
from millrace.engines.spark.source import BAD, ORIGIN, Source
from millrace.model.job import Input
from millrace.model.stream import Format, Stream

#: What the count of a stream's rows is called among those that a query observes.
SEAM = "seam:"
_RECORD, _BROKEN = "__millrace_record", "__millrace_broken"


@dataclass(frozen=True, slots=True)
class Seam:
    """A stream inside a query: its columns, and beside them the origin where it is carried."""

    stream: Stream
    schema: Schema
    base: DataFrame
    carries: bool
    #: Why a record of it can be malformed, if it can.
    cause: str = ""
    #: Where `base` has all rows, which of them are really there.
    passing: Passing | None = None

    def source(self, input_: Input, *, loose: bool) -> Source:
        """Return it as an input of the next job; `loose` if tests may be put off."""
        base, passing = self.base, self.passing
        if passing is not None and not loose:
            base, passing = frame_of(base.sparkSession, passing.plan()), None
        return Source(
            input_,
            self.stream,
            self.schema,
            base,
            base,
            self.cause,
            self.carries,
            counted=True,
            passing=passing,
        )


def passed(stream: Stream, made: Schema, frame: DataFrame, source: Source) -> Seam | None:
    """Return a stream inside a query whose job only picks and tests columns; else None."""
    schema = schema_of(stream, made)
    if stream.key or not source.carries or not _as_declared(frame, schema):
        return None
    plan = carried(frame, [source], settled=False)
    before = source.passing or Passing.of(source.base)
    found = before.then(stream.name, plan, analyzed(source.base)) if plan is not None else None
    if found is None:
        return None
    base = frame_of(frame.sparkSession, found.rows())
    return Seam(stream, schema, base, carries=True, passing=found)


def seam(stream: Stream, made: Schema, frame: DataFrame, plan: Any) -> Seam:
    """Return a stream inside a query; `plan` is the frame's with origins, where they are known.

    A reader sees the columns that the stream declares, as if it had been stored.
    """
    schema, session = schema_of(stream, made), frame.sparkSession
    if plan is not None and not stream.key and _as_declared(frame, schema):
        rows = frame_of(session, counted(plan, f"{SEAM}{stream.name}", "rows"))
        return Seam(stream, schema, rows, carries=True)
    own = {name: name for name in schema}
    if stream.format in (Format.RAW, Format.TEXT) and len(made) == 1:
        own = dict(zip(schema, made, strict=True))  # its only column, whatever it is called
    columns = [
        f"CAST({quoted(own[name])} AS {kind}) AS {quoted(name)}" for name, kind in schema.items()
    ]
    if plan is None:
        return _counted(stream, schema, frame.selectExpr(*columns), {"rows": "true"})
    whole = frame_of(session, plan)
    rows = whole.selectExpr(*columns, f"{_keyed(stream, whole, list(made))} AS {ORIGIN}", BAD)
    return _counted(stream, schema, rows, {"rows": f"NOT {BAD}"}, carries=True)


def _as_declared(frame: DataFrame, schema: Schema) -> bool:
    """Whether a frame has the columns of a schema already, in that order."""
    have = [(field.name, field.dataType) for field in frame.schema.fields]
    return have == [(field.name, field.dataType) for field in fields_of(schema)]


def mapped_seam(stream: Stream, rows: DataFrame) -> Seam:
    """Return a stream inside a query that a `map` job writes, whose rows these are."""
    schema = schema_of(stream)
    decoding = decoded(stream, schema, VALUE, _RECORD)
    parsed = rows.selectExpr("*", f"{decoding.record} AS {_RECORD}") if decoding.record else rows
    alive = f"{FATE} = {USED}"
    broken = f"{alive} AND {decoding.malformed}"
    changes = {"payload": f"if({broken}, {VALUE}, {ORIGIN}.payload)"}
    changes["via"] = f"if({broken}, {text(stream.name)}, {ORIGIN}.via)"
    base = parsed.selectExpr(
        *(f"{column} AS {quoted(name)}" for name, column in decoding.columns.items()),
        f"{_changed(rows, changes)} AS {ORIGIN}",
        f"({FATE} != {USED} OR {decoding.malformed}) AS {BAD}",
        f"{broken} AS {_BROKEN}",
    )
    counts = {"rows": f"NOT {BAD} OR {_BROKEN}", "malformed": _BROKEN}
    found = _counted(stream, schema, base, counts, carries=True)
    bare = found.base.drop(_BROKEN)
    return replace(found, base=bare, cause=decoding.cause)


def _counted(
    stream: Stream,
    schema: Schema,
    rows: DataFrame,
    counts: Mapping[str, str],
    *,
    carries: bool = False,
) -> Seam:
    seen = [F.expr(f"count(if({what}, 1, NULL)) AS {name}") for name, what in counts.items()]
    return Seam(stream, schema, rows.observe(f"{SEAM}{stream.name}", *seen), carries)


def _keyed(stream: Stream, whole: DataFrame, columns: Sequence[str]) -> str:
    """The origin, with the key that a record has in this stream."""
    if not stream.key:
        return ORIGIN
    key = f"if({BAD}, {ORIGIN}.key, {declared_key(stream, columns)})"
    return _changed(whole, {"key": key})


def _changed(rows: DataFrame, changes: Mapping[str, str]) -> str:
    """The origin with some of its fields changed."""
    names = cast("StructType", rows.schema[ORIGIN].dataType).names
    fields = (f"'{name}', {changes.get(name, f'{ORIGIN}.{name}')}" for name in names)
    return f"named_struct({', '.join(fields)})"
