"""Tests of a pipeline's jobs: records in, records out, through the job's real code on a real Spark.

A Spark takes seconds to start, so one serves all tests of a module:

    import pytest
    from millrace.testing import local_spark, run_job

    @pytest.fixture(scope="module")
    def spark():
        with local_spark() as spark:
            yield spark

    def test_clean(spark):
        given = {"raw": [{"vehicle": "a", "speed": 1.0}, b"garbage"]}
        done = run_job("pipeline.yaml", "clean", given, spark)
        assert done.records["clean"] == [{"vehicle": "a", "speed": 1.0}]
        assert [letter.payload for letter in done.dead_letters] == [b"garbage"]
        assert (done.fates.read, done.fates.used, done.fates.malformed) == (2, 1, 1)

The job runs as one micro-batch over all records. A window gives its result, as it does always, when
a later record closes it: give one, far enough behind the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millrace.errors import OperationFailed, nearest
from millrace.machine import Folders, find_java
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.stream import Format, Stream
from millrace.ports import CAUSE_HEADER, Fates, Record, origin_of
from millrace.spec import load
from millrace.testing.faulty_log import MemoryLog

if TYPE_CHECKING:
    from millrace.engines.spark.trial import Spark, Tried

#: What a test may give as a record: columns, the bytes or text themselves, or all there is to one.
Given = Mapping[str, Any] | bytes | str | Record


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that the job could not use: as it was, where it came from, and why."""

    payload: bytes | None
    cause: str
    stream: str
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class JobResults:
    """What a job made of the records of a test."""

    #: By output stream, each result as a reader's code gets it: columns with Python's types.
    records: Mapping[str, Sequence[dict[str, Any]]]
    #: Those whose input declares no stream for dead letters are here as well.
    dead_letters: Sequence[DeadLetter]
    #: What became of each record, as a running job counts it.
    fates: Fates
    #: By output stream, each result as it would be written: key, bytes, headers, partition.
    written: Mapping[str, Sequence[Record]]


@contextmanager
def local_spark() -> Iterator[Spark]:
    """Give a small Spark of two threads inside this process; for a fixture of a test module."""
    from millrace.engines.spark.trial import trial_session  # noqa: PLC0415 - Spark is an extra

    cache = Folders.of().cache
    with trial_session(find_java(cache), cache) as session:
        yield session


def run_job(
    file: str | Path,
    job: str,
    records: Mapping[str, Sequence[Given]],
    spark: Spark,
    *,
    profile: str | None = None,
) -> JobResults:
    """Run one job of a pipeline file over records, given by the names of its input streams.

    Raises SpecError where the file is not valid, and OperationFailed, with the way out, where the
    job could not run.
    """
    from millrace.engines.spark.trial import tried  # noqa: PLC0415 - Spark is an extra

    pipeline = load(file, profile=profile).required()
    found = _named("job", job, pipeline.jobs)
    given = {
        name: _stored(pipeline.streams[name], items)
        for name, items in _by_stream(found, records).items()
    }
    code = Path(file).absolute().parent
    return _results(pipeline, tried(spark, pipeline, job, code, given))


def _named(kind: str, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        near = nearest(name, known)
        raise OperationFailed(
            f"no-{kind}",
            f"there is no {kind} {name!r}",
            f"did you mean {near!r}?" if near else f"known are {', '.join(known)}",
        )
    return known[name]


def _by_stream(job: Job, records: Mapping[str, Sequence[Given]]) -> dict[str, Sequence[Given]]:
    """The records by the streams' own names; the names of the job's code are taken too."""
    names = {input_.alias: input_.stream for input_ in job.inputs if input_.alias}
    names |= {name: name for name in job.reads}
    return {_named("input", name, names): items for name, items in records.items()}


def _stored(stream: Stream, items: Sequence[Given]) -> list[Record]:
    """The records with keys, partitions, positions and times, as a log would hold them."""
    log = MemoryLog({stream.name: stream.partitions})
    log.write(stream.name, [_record(stream, item) for item in items])
    ends = {part: span.end for part, span in log.ends(stream.name).items()}
    return list(log.read(stream.name, dict.fromkeys(ends, 0), ends))


def _record(stream: Stream, item: Given) -> Record:
    from millrace.engines.spark.typed import writer  # noqa: PLC0415 - orjson comes with Spark

    if isinstance(item, Record):
        return item
    if isinstance(item, bytes | str):
        return Record(item.encode() if isinstance(item, str) else item)
    columns = stream.schema if stream.format is Format.CSV else None
    return Record(writer(stream.format, columns)(dict(item)), _key(stream, item))


def _key(stream: Stream, item: Mapping[str, Any]) -> bytes | None:
    if not stream.key or any(item.get(name) is None for name in stream.key):
        return None
    if len(stream.key) == 1:
        return str(item[stream.key[0]]).encode()
    return json.dumps({name: item[name] for name in stream.key}, default=str).encode()


def _results(pipeline: Pipeline, done: Tried) -> JobResults:
    records = {
        name: _decoded(pipeline.streams[name], done.schemas.get(name), written)
        for name, written in done.results.items()
    }
    letters = [_letter(record) for record in done.letters]
    return JobResults(records, letters, done.fates, done.results)


def _decoded(
    stream: Stream, made: Mapping[str, str] | None, written: Sequence[Record]
) -> list[dict[str, Any]]:
    from millrace.engines.spark.typed import reader  # noqa: PLC0415 - orjson comes with Spark

    schema = stream.schema or made
    if stream.format in (Format.RAW, Format.TEXT):  # one column, whatever its writer called it
        schema = stream.schema or {"value": "binary"}
    if not schema:  # a `map` job may write a stream that nobody declared the columns of
        return [json.loads(record.value or b"null") for record in written]
    read = reader(stream.format, schema)
    rows = []
    for record in written:
        row = read(record.value)
        if row is None:
            columns = ", ".join(f"{name}: {kind}" for name, kind in schema.items())
            raise OperationFailed(
                "result-does-not-fit",
                f"a result is not {stream.format} of ({columns}): {record.value!r}",
                f"readers of {stream.name} would take it as malformed; correct the job's code or "
                f"streams.{stream.name}.schema",
            )
        rows.append(row)
    return rows


def _letter(record: Record) -> DeadLetter:
    origin = origin_of(record)
    cause = (record.header(CAUSE_HEADER) or b"").decode("utf-8", "replace")
    return DeadLetter(record.value, cause, origin.stream if origin else "", record.key)
