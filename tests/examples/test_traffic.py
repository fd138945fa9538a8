"""Spark and the plain computation agree: on what is malformed, and on every row."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own guide uses

from millrace.spec import load
from tests.examples.parts import PIPELINE, part

# One session for the module: with `--dist loadgroup` one worker has all of it.
pytestmark = pytest.mark.xdist_group("spark")

vehicles, expected, traffic = part("vehicles"), part("expected"), part("traffic")
PASSING = "vehicle string, speed double, at timestamp"
SECONDS = 90
#: Values that the generator makes seldom or never.
ODD = [
    b"", b" ", b"null", b"{}", b"{", b"}", b"42", b'"text"', b"true", b"NaN",
    b'{"vehicle": 5}', b'{"vehicle": "a", "other": [1, 2]}', b'{"speed": 3}',
    b'{"speed": "3"}', b'{"speed": true}', b'{"speed": null, "at": null}', b'{"speed": []}',
    b'{"at": "2026-01-05T08:00:00Z"}', b'{"at": "2026-01-05T08:00:00.250+01:00"}',
    b'{"at": ""}', b'{"at": "2026-13-05T08:00:00Z"}', b'{"at": true}', b'{"vehicle": "a" "b"}',
    b'{"vehicle": "\xff\xfe"}', b"\xff\xfe", b"\x00", b'{"vehicle": "\xc3\xa9", "speed": 1e2}',
]  # fmt: skip


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.ansi.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        # Small data: what compiles code for speed costs more than it saves.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder))
        .getOrCreate()
    )
    yield session
    session.stop()
    del os.environ["SPARK_LOCAL_IP"]


def parsed(values: DataFrame) -> DataFrame:
    """Return the values with the passing in each and whether it is malformed."""
    schema = f"{PASSING}, _corrupt string"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    passing = F.from_json(F.col("value").cast("string"), schema, options)
    found = values.withColumn("passing", passing)
    flagged = F.col("passing").isNull() | F.col("passing._corrupt").isNotNull()
    return found.withColumn("malformed", flagged)


def cleaned(found: DataFrame) -> DataFrame:
    """Return what the SQL of the file's `clean` jobs lets through."""
    raw = found.where("NOT malformed").select("sensor", "passing.*").drop("_corrupt")
    sql = load(PIPELINE).required().jobs["clean-1"].sql
    return found.sparkSession.sql((sql or "").replace("FROM raw", "FROM {raw}"), raw=raw)


def rows(summary: DataFrame) -> list[dict[str, object]]:
    """Return a summary's rows as the pipeline writes them."""
    start = F.date_format("start", "yyyy-MM-dd'T'HH:mm:ss.SSSX").alias("start")
    return [row.asDict() for row in summary.select(start, "vehicles", "speed").collect()]


def table(spark: SparkSession, values: list[tuple[str, bytes]]) -> DataFrame:
    numbered = [(number, *item) for number, item in enumerate(values)]
    return spark.createDataFrame(numbered, "number int, sensor string, value binary")


def test_spark_and_the_plain_reader_agree_on_odd_values(spark: SparkSession) -> None:
    found = parsed(table(spark, [("1", value) for value in ODD])).orderBy("number").collect()
    for value, row in zip(ODD, found, strict=True):
        passing, one = expected.read(value), row["passing"]
        assert row["malformed"] == (passing is None), value
        if passing is not None:
            assert (one["vehicle"], one["speed"]) == (passing.vehicle, passing.speed), value
            assert (one["at"] is None) == (passing.at is None), value


def test_malformed_filtered_and_every_row_are_as_expected(spark: SparkSession) -> None:
    made = vehicles.records(5, vehicles.SENSORS, SECONDS, 100)
    want = expected.expected(made)
    values = [(sensor, value) for sensor, stored in made.items() for *_, value in stored]
    found = parsed(table(spark, values)).cache()
    malformed = {row["number"] for row in found.where("malformed").select("number").collect()}
    assert malformed == {n for n, (_, value) in enumerate(values) if expected.read(value) is None}
    assert len(malformed) == sum(want.malformed.values()) > 50
    clean = cleaned(found).cache()
    used = {row["sensor"]: row["count"] for row in clean.groupBy("sensor").count().collect()}
    assert used == want.used
    for edge, sensors in expected.EDGES.items():
        of_edge = clean.where(F.col("sensor").isin(*sensors))
        windowed = of_edge.withColumn("window", F.window("at", "10 seconds", "2 seconds"))
        assert expected.differences(rows(traffic.summary(windowed)), want.local[edge]) == []
    windowed = clean.withColumn("window", F.window("at", "1 minute"))
    assert expected.differences(rows(traffic.summary(windowed)), want.total) == []
    assert [len(want.local[edge]) for edge in expected.EDGES] == [SECONDS // 2 + 4] * 3
    assert len(want.total) == 2


def test_a_summary_has_the_columns_that_the_pipeline_declares(spark: SparkSession) -> None:
    empty = spark.createDataFrame([], PASSING).withColumn("window", F.window("at", "1 minute"))
    found = {field.name: field.dataType for field in traffic.summary(empty).schema}
    declared = load(PIPELINE).required().streams["global"].schema
    assert declared is not None
    names = {"bigint": "long"}
    shown = {name: kind.simpleString() for name, kind in found.items()}
    assert {name: names.get(kind, kind) for name, kind in shown.items()} == dict(declared)


def test_windows_of_a_stream_close_once_all_of_them_and_no_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The same input as a stream, a file for each 10 s and the closing records in the last."""
    sent = vehicles.timeline(6, 40, 60, ("8", "9", "10"))
    want = expected.windows(
        [p for *_, v in sent if (p := expected.read(v)) and expected.cleaned(p)], *expected.LOCAL
    )
    files = [[v for at, *_, v in sent if at // 10 == tens] for tens in range(4)]
    files.append([value for *_, value in vehicles.closing(("8",), 40)["8"]])
    (tmp_path / "in").mkdir()
    for number, values in enumerate(files):
        path = tmp_path / "in" / f"{number}"
        path.write_bytes(b"".join(value + b"\n" for value in values))
        os.utime(path, (number, number))  # Spark reads the oldest first
    source = spark.readStream.option("maxFilesPerTrigger", 1).option("latestFirst", "false")
    found = parsed(source.text(str(tmp_path / "in")).withColumn("sensor", F.lit("8")))
    windowed = (
        cleaned(found)
        .withWatermark("at", "5 seconds")
        .withColumn("window", F.window("at", "10 seconds", "2 seconds"))
    )
    writer = traffic.summary(windowed).writeStream.format("memory").queryName("local")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert expected.differences(rows(spark.table("local")), want) == []
