"""A job's source outside as a frame."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.outside.feeds import Description
from millrace.engines.spark.outside.source import FORMAT, Outside
from millrace.model.job import Job, Mode
from millrace.model.stream import Stream
from millrace.ports import JobOrder

#: PostgreSQL gives numbers out before rows can be seen.
SETTLES = 2.0


def outside_reader(session: SparkSession, stream: Stream, job: Job, order: JobOrder) -> DataFrame:
    """Return what comes from outside, with the columns that Kafka's records have."""
    session.dataSource.register(Outside)
    told = description(stream, job, order.place, order.code).text()
    found = session.readStream.format(FORMAT).option("read", told).load()
    headers = "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers"
    return found.select(
        F.expr("CAST(NULL AS BINARY) AS key"),
        "value",
        F.lit(stream.address).alias("topic"),
        "partition",
        "offset",
        "timestamp",
        F.lit(0).alias("timestampType"),
        F.expr(headers),
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
