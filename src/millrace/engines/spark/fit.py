"""Whether a job's result fits the stream that it goes to."""

from __future__ import annotations

from functools import cache
from typing import cast

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from millrace.engines.spark.formats import Schema, ddl
from millrace.engines.spark.java import CATALYST, java_class
from millrace.errors import OperationFailed, nearest
from millrace.model.stream import Format, Stream


def check_fit(frame: DataFrame, stream: Stream) -> Schema:
    """Return the columns of a result; raises where the stream declares others.

    A column fits when it is of the declared type or of one that it holds without loss (an int
    where a long is declared).
    """
    made = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    hidden = [name for name in made if name.startswith("__")]
    if hidden:
        raise OperationFailed(
            "reserved-name",
            f"the result for stream {stream.name} has a column {hidden[0]!r}: names that begin "
            "with __ are Millrace's own",
            "give it another name with AS",
        )  # fmt: skip
    if not stream.schema or stream.format in (Format.RAW, Format.TEXT):
        return made
    problems = [
        *(_missing(name, made) for name in stream.schema if name not in made),
        *(f"{name} is not among them" for name in made if name not in stream.schema),
        *_misfits(frame, stream.schema),
    ]
    if problems:
        raise OperationFailed(
            "schema-does-not-fit",
            f"the result does not fit stream {stream.name} ({ddl(stream.schema)}): "
            + "; ".join(problems),
            f"select those columns, or correct streams.{stream.name}.schema",
        )
    return {name: made[name] for name in stream.schema}


def fields_of(schema: Schema) -> list[StructField]:
    """Return the columns of a schema with their types."""
    return _parsed(ddl(schema)).fields


@cache
def _parsed(columns: str) -> StructType:
    return cast("StructType", StructType.fromDDL(columns))


def _missing(name: str, made: dict[str, str]) -> str:
    near = nearest(name, made)
    return f"{name} is missing" + (f" (there is {near})" if near else "")


def _misfits(frame: DataFrame, schema: Schema) -> list[str]:
    read = java_class("org.apache.spark.sql.types.DataType").fromJson
    can_hold = java_class(f"{CATALYST}.expressions.Cast").canUpCast
    found = {field.name: field.dataType for field in frame.schema.fields}
    problems = []
    for field in fields_of(schema):
        have = found.get(field.name)
        if have is None or have == field.dataType:
            continue
        if not can_hold(read(have.json()), read(field.dataType.json())):
            can_not = f"can't be {field.dataType.simpleString()}"
            problems.append(f"{field.name} is {have.simpleString()} and {can_not}")
    return problems
