"""A job's source outside as a frame."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.outside.carried import (
    kind_of,
    plugin_of,
    settings_file,
    spool_of,
)
from millrace.engines.spark.outside.feeds import Description
from millrace.engines.spark.outside.source import FORMAT, Outside
from millrace.errors import OperationFailed
from millrace.model.job import Input, Job, Mode
from millrace.model.stream import Stream
from millrace.ports import JobOrder

#: PostgreSQL gives numbers out before rows can be seen.
SETTLES = 2.0


def outside_reader(session: SparkSession, stream: Stream, job: Job, order: JobOrder) -> DataFrame:
    """Return what comes from outside, with the columns that Kafka's records have."""
    return _records(session, stream, description(stream, job, order.place, order.code))


def carried_reader(
    session: SparkSession,
    stream: Stream,
    order: JobOrder,
    input_: Input,
    begin: Mapping[int, int] | None,
) -> DataFrame:
    """Return the records of a stream that another broker than Kafka carries."""
    if input_.table:
        raise OperationFailed(
            "no-table",
            f"job {order.job.name} reads {stream.name} as a table, which is not on a Kafka",
            "copy it to a stream on a Kafka, and read that",
        )
    places = {str(part): at for part, at in (begin or {}).items()}
    if plugin_of(order, stream).keeps:
        path, kind = settings_file(order, stream), kind_of(order, stream)
        told = Description(stream.address, "log", path=str(path), holds=kind, begin=places)
    else:
        path = spool_of(order, stream.name)
        told = Description(stream.address, "spool", path=str(path), begin=places)
    return _records(session, stream, told)


def _records(session: SparkSession, stream: Stream, told: Description) -> DataFrame:
    session.dataSource.register(Outside)
    found = session.readStream.format(FORMAT).option("read", told.text()).load()
    return found.select(
        "key",
        "value",
        F.lit(stream.address).alias("topic"),
        "partition",
        "offset",
        "timestamp",
        F.lit(0).alias("timestampType"),
        "headers",
    )


def description(stream: Stream, job: Job, place: Path, code: Path) -> Description:
    """Return how a job's source is told to those who read it."""
    if job.read is None:
        seconds = float(job.every.seconds) if job.every is not None else 0.0
        return Description(stream.name, "ticks", seconds=seconds)
    read = job.read
    address = read.database or ""
    if address.startswith("sqlite:"):
        address = f"sqlite:{code / address.removeprefix('sqlite:')}"
    settles = SETTLES if address.startswith("postgresql:") else 0.0
    return Description(
        stream.name,
        read.kind,
        path=str(code / (read.files or read.replay or "")),
        kept=str(place / "files.json"),
        holds=read.holds.value,
        whole=job.mode is Mode.DRAIN,
        speed=read.speed,
        by=read.by or "",
        format=stream.format.value,
        schema=dict(stream.schema or {}),
        query=read.query or "",
        address=address,
        password=read.password.secret if read.password is not None else "",
        seconds=settles if read.settles is None else float(read.settles.seconds),
        lossy=str((job.options or {}).get("failOnDataLoss", True)).lower() == "false",
    )
