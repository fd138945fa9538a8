"""Batches on their way out: into files, to a program or to a web hook, at least once."""

from __future__ import annotations

import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.formats import Schema, ddl
from millrace.engines.spark.outside.bridge import outside
from millrace.errors import OperationFailed
from millrace.machine.secrets import revealed
from millrace.model.outside import Write, Written
from millrace.ports import JobOrder

#: How much of what a program or a hook says is told.
_SAID = 500


@dataclass(frozen=True, slots=True)
class Sink:
    """What a job writes to."""

    job: str
    stream: str
    write: Write
    code: Path
    schema: Schema

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
        if self.write.kind == "command":
            self._command(data, number)
        else:
            self._hook(data, number)

    def _files(self, rows: DataFrame, number: int) -> None:
        place = str(self.code / (self.write.files or "") / f"batch={number}")
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
        seconds = float(self.write.timeout.seconds)
        try:
            done = subprocess.run(  # noqa: S603 - the user's own program, no shell
                self.write.command, input=data, capture_output=True, cwd=self.code,
                timeout=seconds, check=False, env=_environment(self.job, number),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise self._failed(f"took longer than {seconds:.0f} s") from None
        except OSError as error:
            raise self._failed(f"can't be run: {error.strerror}") from error
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()[-_SAID:]
            raise self._failed(f"ended with {done.returncode}: {said}")

    def _hook(self, data: bytes, number: int) -> None:
        headers = {
            "Content-Type": "application/x-ndjson",
            "Idempotency-Key": f"{self.job}/{number}",
        }
        if self.write.token is not None:
            token = revealed(self.write.token.secret, f"jobs.{self.job}.write.token")
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(self.write.url or "", data, headers)  # noqa: S310 - checked
        seconds = float(self.write.timeout.seconds)
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:  # noqa: S310
                answer.read(_SAID)
        except urllib.error.HTTPError as error:
            said = error.read(_SAID).decode("utf-8", "replace").strip()
            raise self._failed(f"answered {error.code}: {said}") from error
        except OSError as error:
            raise self._failed(f"can't be reached: {error}") from error

    def _failed(self, what: str) -> OperationFailed:
        target = self.write.url or " ".join(self.write.command)
        return OperationFailed(
            "sink-failed", f"job {self.job}: {target} {what}", "the batch is tried again"
        )


def sink_of(order: JobOrder, schemas: Mapping[str, Schema]) -> Sink | None:
    """Return where a job writes outside, if it does."""
    job = order.job
    if job.write is None:
        return None
    (stream,) = _outside(job.writes)
    return Sink(job.name, stream, job.write, order.code, schemas[stream])


def _outside(streams: Sequence[str]) -> list[str]:
    return [name for name in streams if outside(name)]


def _environment(job: str, number: int) -> dict[str, str]:
    return {**os.environ, "MILLRACE_JOB": job, "MILLRACE_BATCH": str(number)}
