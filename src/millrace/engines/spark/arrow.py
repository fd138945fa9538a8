"""Records of Arrow in Spark: a record is a stream of Arrow with one row."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

from millrace.engines.spark.binary import arrow_schema

#: What the function that writes is called in SQL.
TO_ARROW = "millrace_to_arrow"


def from_arrow(declared: str) -> str:
    """Return what the function is called in SQL that reads these columns."""
    return f"millrace_from_arrow_{zlib.crc32(declared.encode())}"


def register_reader(session: SparkSession, schema: Mapping[str, str], declared: str) -> None:
    """Make known the function that reads records of these columns, as Spark's SQL declares them."""
    read = reader(arrow_schema(schema))
    kind = pa.struct(list(arrow_schema(schema)))

    def decode(values: Any) -> Any:
        return pa.array([read(value) for value in values.to_pylist()], kind)

    session.udf.register(
        from_arrow(declared), arrow_udf(decode, f"struct<{_colons(schema)}>", ArrowUDFType.SCALAR)
    )


def _colons(schema: Mapping[str, str]) -> str:
    return ", ".join(f"`{name.replace('`', '``')}`: {kind}" for name, kind in schema.items())


def reader(schema: pa.Schema) -> Callable[[bytes | None], dict[str, Any] | None]:
    """Return what reads a record; it gives None for one that is malformed."""

    def read(value: bytes | None) -> dict[str, Any] | None:
        try:
            with pa.ipc.open_stream(value or b"") as stream:
                table = stream.read_all()
            row: dict[str, Any] = table.select(schema.names).cast(schema).to_pylist()[0]
        except (pa.ArrowException, OSError, TypeError, KeyError, IndexError):
            return None
        return row if table.num_rows == 1 else None

    return read


def register_writer(session: SparkSession) -> None:
    """Make known the function that writes a struct."""

    def encode(rows: Any) -> Any:
        batch = pa.RecordBatch.from_struct_array(rows)
        return pa.array([written(batch.slice(at, 1)) for at in range(len(rows))], pa.binary())

    session.udf.register(TO_ARROW, arrow_udf(encode, "binary", ArrowUDFType.SCALAR))


def written(batch: pa.RecordBatch) -> bytes:
    """Return a row as a stream of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()
