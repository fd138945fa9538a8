"""Jobs tried without a broker: what comes out is what a running pipeline would write."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from millrace.errors import OperationFailed, SpecError
from millrace.ports import Record
from millrace.testing import DeadLetter, Given, local_spark, run_job

pytestmark = pytest.mark.timeout(400)
FILE = """\
pipeline: probe
sites: {here: {broker: kafka}}
streams:
  raw: {schema: {vehicle: string, speed: double, at: timestamp}, key: vehicle, partitions: 2,
        dead_letters: rejected}
  clean: {key: vehicle}
  counts: {}
  mapped: {schema: {vehicle: string}}
  lines: {format: csv, schema: {a: int, b: string}}
  words: {format: text}
  rejected: {format: raw}
jobs:
  clean: {from: raw, to: clean, sql: SELECT * FROM raw WHERE speed > 0}
  count:
    from: {stream: clean, as: passings}
    to: counts
    window: {of: 10 s, by: at}
    python: code:count
  map: {from: lines, to: mapped, map: "code:mapped"}
  words: {from: lines, to: words, sql: SELECT b FROM lines}
  sorted: {from: clean, to: sorted, sql: SELECT * FROM clean ORDER BY at}
  wrong: {from: lines, to: wrong, sql: SELECT c FROM lines}
"""
CODE = """\
from pyspark.sql import functions as F


def count(passings):
    counted = passings.groupBy("window").agg(F.count("*").alias("n"))
    return counted.select(F.col("window.start").alias("start"), "n")


def mapped(row):
    if row["a"] == 0:
        return {"vehicle": 5 // row["a"]}
    if row["a"] == 3:
        return None
    return [{"vehicle": row["b"]}] * row["a"]
"""
AT = datetime(2026, 1, 5, 8, tzinfo=UTC)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with local_spark() as session:
        yield session


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    declared = FILE.replace("  rejected:", "  sorted: {}\n  wrong: {}\n  rejected:", 1)
    path.write_text(declared)
    (tmp_path / "code.py").write_text(CODE)
    return path


def passing(vehicle: str, speed: float, second: int = 0) -> dict[str, Any]:
    return {"vehicle": vehicle, "speed": speed, "at": AT.replace(second=second)}


def test_results_letters_and_the_ledger(spark: Any, pipeline: Path) -> None:
    given: list[Given] = [
        passing("a", 1.5),
        b"garbage",
        passing("b", -1.0),
        Record(b'{"vehicle": "c", "speed": 2}', b"own key", partition=1),
    ]
    done = run_job(pipeline, "clean", {"raw": given}, spark)
    found = sorted(done.records["clean"], key=lambda row: str(row["vehicle"]))
    assert found == [passing("a", 1.5), {"vehicle": "c", "speed": 2.0, "at": None}]
    cause = "not json of (`vehicle` string, `speed` double, `at` timestamp)"
    assert done.dead_letters == [DeadLetter(b"garbage", cause, "raw")]
    fates = done.fates
    assert (fates.read, fates.used, fates.filtered, fates.malformed) == (4, 2, 1, 1)
    assert fates.written == {"clean": 2}
    assert {record.key for record in done.written["clean"]} == {b"a", b"c"}


def test_a_window_closes_by_a_later_record(spark: Any, pipeline: Path) -> None:
    given = [passing("a", 1.0), passing("b", 1.0, 9), passing("c", 1.0, 40)]
    done = run_job(pipeline, "count", {"passings": given}, spark)
    assert done.records["counts"] == [{"start": AT, "n": 2}]
    assert (done.fates.read, done.fates.used, done.fates.filtered) == (3, 3, None)


def test_a_map_job_tells_what_its_code_raised(spark: Any, pipeline: Path) -> None:
    given: list[Given] = [{"a": 2, "b": "x"}, "0,zero", "3,none", "no,row", b"1,y"]
    done = run_job(pipeline, "map", {"lines": given}, spark)
    assert [row["vehicle"] for row in done.records["mapped"]] == ["x", "x", "y"]
    # The stream declares no place for dead letters; a test sees them all the same.
    causes = {letter.payload: letter.cause for letter in done.dead_letters}
    assert causes.keys() == {b"0,zero", b"no,row"}
    assert causes[b"0,zero"].startswith("ZeroDivisionError")
    fates = done.fates
    assert (fates.read, fates.used, fates.filtered, fates.malformed, fates.dropped) == (
        5, 2, 1, 1, 1,
    )  # fmt: skip


def test_text_and_no_records_at_all(spark: Any, pipeline: Path) -> None:
    done = run_job(pipeline, "words", {"lines": [b"1,hello"]}, spark)
    assert done.records["words"] == [{"value": "hello"}]
    done = run_job(pipeline, "words", {}, spark)
    assert done.records == {"words": []}
    assert done.fates.read == 0


@pytest.mark.parametrize(
    ("job", "records", "code", "message"),
    [
        ("clan", {}, "no-job", "there is no job 'clan'"),
        ("clean", {"rav": []}, "no-input", "there is no input 'rav'"),
        ("wrong", {"lines": [b"1,x"]}, "bad-query", "`c` cannot be resolved"),
        ("sorted", {"clean": [passing("a", 1.0)]}, "bad-query", "sort"),
    ],
)
def test_what_can_not_run_is_said_as_in_production(
    spark: Any, pipeline: Path, job: str, records: dict[str, list[Any]], code: str, message: str
) -> None:
    with pytest.raises(OperationFailed) as failed:
        run_job(pipeline, job, records, spark)
    assert failed.value.code == code
    assert message.lower() in failed.value.message.lower()


def test_a_result_that_its_readers_could_not_read_is_told(spark: Any, pipeline: Path) -> None:
    pipeline.write_text(
        pipeline.read_text().replace("mapped: {schema: {vehicle: string}}",
                                     "mapped: {schema: {vehicle: int}}")
    )  # fmt: skip
    with pytest.raises(OperationFailed, match="not json of"):
        run_job(pipeline, "map", {"lines": [b"1,x"]}, spark)


def test_a_file_with_problems_raises_them(spark: Any, pipeline: Path) -> None:
    pipeline.write_text("pipeline: x\njobs: {a: {from: nowhere}}\n")
    with pytest.raises(SpecError):
        run_job(pipeline, "a", {}, spark)
