"""Batches on their way out: into files, to a program or to a web hook, at least once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.formats import Schema, ddl
from millrace.engines.spark.outside.bridge import outside
from millrace.engines.spark.outside.command import run
from millrace.engines.spark.outside.hook import bearer, post
from millrace.engines.spark.outside.undone import Undone
from millrace.errors import OperationFailed
from millrace.machine.secrets import revealed
from millrace.model.outside import Write, Written
from millrace.ports import JobOrder

#: How much of a query's id is told: enough, and not too much for the name of a folder.
_SHORT = 13


@dataclass(frozen=True, slots=True)
class Sink:
    """What a job writes to."""

    job: str
    stream: str
    write: Write
    code: Path
    schema: Schema
    checkpoint: Path

    def take(self, batch: DataFrame, number: int) -> None:
        """Take the rows of a batch that are meant for it; raises where it can't.

        A batch that comes again replaces its files; a program and a hook get it again.
        """
        rows = batch.where(F.col("topic") == self.stream)
        if self.write.kind == "files":
            self._files(rows, number)
            return
        values = [bytes(row[0]) for row in rows.select("value").toLocalIterator()]
        if not values:
            return
        data = b"".join(value + b"\n" for value in values)
        try:
            (self._command if self.write.kind == "command" else self._hook)(data, number)
        except Undone as undone:
            raise OperationFailed(
                "sink-failed", f"job {self.job}: {undone}", "the batch is tried again"
            ) from None  # the cause may hold a token

    def _files(self, rows: DataFrame, number: int) -> None:
        folder = f"batch={self.job}-{self._query()}-{number}"
        place = str(self.code / (self.write.files or "") / folder)
        lines = rows.select(F.col("value").cast("string").alias("value"))
        if self.write.format is Written.JSON:
            lines.write.mode("overwrite").text(place)
            return
        columns = lines.select(F.from_json("value", ddl(self.schema)).alias("row"))
        writer = columns.select("row.*").write.mode("overwrite")
        if self.write.format is Written.CSV:
            writer.option("header", "true").csv(place)
        else:
            writer.parquet(place)

    def _command(self, data: bytes, number: int) -> None:
        told = {
            "MILLRACE_JOB": self.job,
            "MILLRACE_QUERY": self._query(),
            "MILLRACE_BATCH": str(number),
        }
        run(self.write.command, data, self.code, self._seconds, {**os.environ, **told})

    def _hook(self, data: bytes, number: int) -> None:
        headers = {
            "Content-Type": "application/x-ndjson",
            "Idempotency-Key": f"{self.job}/{self._query()}/{number}",
        }
        if self.write.token is not None:
            where = f"jobs.{self.job}.write.token"
            headers["Authorization"] = bearer(revealed(self.write.token.secret, where), where)
        post(self.write.url or "", data, headers, self._seconds)

    @property
    def _seconds(self) -> float:
        return float(self.write.timeout.seconds)

    def _query(self) -> str:
        """What tells the batches of this checkpoint from those of a job that began anew."""
        found: str = json.loads((self.checkpoint / "metadata").read_bytes())["id"]
        return found[:_SHORT]


def sink_of(order: JobOrder, schemas: Mapping[str, Schema]) -> Sink | None:
    """Return where a job writes outside, if it does."""
    job = order.job
    if job.write is None:
        return None
    (stream,) = _outside(job.writes)
    checkpoint = order.place / "checkpoint"
    return Sink(job.name, stream, job.write, order.code, schemas[stream], checkpoint)


def _outside(streams: Sequence[str]) -> list[str]:
    return [name for name in streams if outside(name)]
