"""A pipeline that ends by itself, what its jobs keep, and a program of the user's beside them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyspark
import pytest

from millrace.machine import Java

pytestmark = pytest.mark.timeout(400)
PIPELINE = """
pipeline: ends
sites: {here: {broker: kafka}}
streams:
  raw: {schema: {car: string, n: int, at: timestamp}, key: car, partitions: 2}
  sums: {schema: {car: string, sum: int}}
  copies: {format: text}
  files: {}
jobs:
  source: {read: {replay: trip.jsonl, by: at, speed: 60}, to: raw}
  sums: {from: raw, to: sums, state: {code: "trips:Trip", key: car}}
  all: {from: raw, to: files, sql: "SELECT car, n FROM raw"}
  keep: {from: files, write: out}
  program:
    from: raw
    to: copies
    jar:
      path: own.jar
      entry: Own
      arguments: ["{bootstrap}", "{topic:raw}", "{topic:copies}", "60"]
"""
TRIPS = """
class Trip:
    sum: int = 0

    def on_record(self, record, now):
        self.sum += record["n"]
        return {"car": record["car"], "sum": self.sum}
"""
#: Waits for so many records, copies them, and is over.
OWN = """
import org.apache.spark.sql.SparkSession
object Own {
  def main(arguments: Array[String]): Unit = {
    val spark = SparkSession.builder().getOrCreate()
    val reader = spark.read.format("kafka").option("kafka.bootstrap.servers", arguments(0))
    def records = reader.option("subscribe", arguments(1)).load()
    while (records.count() < arguments(3).toLong) Thread.sleep(500)
    records.select("value").write.format("kafka").option("kafka.bootstrap.servers", arguments(0))
      .option("topic", arguments(2)).save()
    assert(spark.conf.get("spark.millrace.topic.copies") == arguments(2))
    spark.stop()
  }
}
"""


def build(java: Java, place: Path) -> None:
    """Make the program with the compiler that Spark brings."""
    (place / "Own.scala").write_text(OWN)
    jars = Path(pyspark.__file__).parent / "jars"
    subprocess.run(
        [java.program, "-cp", f"{jars}/*", "scala.tools.nsc.Main", "-usejavacp",
         "-d", place / "own.jar", place / "Own.scala"],
        check=True, timeout=120,
    )  # fmt: skip


def millrace(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "millrace.cli", *arguments, "--home", str(place / "home")]
    return subprocess.run(
        command, cwd=place, capture_output=True, text=True, timeout=300, check=False
    )


def test_a_pipeline_ends_with_its_source(java: Java, tmp_path: Path) -> None:
    build(java, tmp_path)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "trips.py").write_text(TRIPS)
    rows = [
        {"car": "abc"[n % 3], "n": n, "at": f"2024-05-01T00:{n // 10:02}:{n % 10 * 6:02}Z"}
        for n in range(60)
    ]
    (tmp_path / "trip.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = millrace(tmp_path, "run", "pipeline.yaml", "-o", "json")
    assert found.returncode == 0, found.stderr
    assert "all jobs are over" in found.stderr
    jobs = json.loads(found.stdout)["jobs"]
    assert {job["state"] for job in jobs.values()} == {"ended"}
    assert jobs["sums"]["ledger"]["used"] == jobs["keep"]["ledger"]["used"] == 60
    kept = [
        json.loads(line)
        for path in tmp_path.glob("out/*/*.txt")
        for line in path.read_text().splitlines()
    ]
    assert Counter(row["n"] for row in kept) == Counter(range(60))
    shown = millrace(tmp_path, "state", "show", "sums", "-o", "json")
    assert shown.returncode == 0, shown.stderr
    sums = {item["key"]["car"]: item["state"]["sum"] for item in json.loads(shown.stdout)["keys"]}
    assert sums == {car: sum(range(place, 60, 3)) for place, car in enumerate("abc")}
    one = millrace(tmp_path, "state", "show", "sums", "--key", "b")
    assert one.stderr == ""
    assert one.stdout.strip() == f'b  {{"sum": {sums["b"]}}}'


ONE = """
pipeline: once
sites: {here: {broker: kafka}}
streams: {raw: {schema: {n: int}}, out: {}}
jobs:
  source: {read: lines.jsonl, to: raw}
  double: {from: raw, to: out, sql: SELECT 2 * n AS n FROM raw}
"""
BOTH = """
pipeline: once
sites: {here: {broker: kafka}}
streams: {raw: {schema: {n: int}}, more: {schema: {n: int}}, out: {}}
jobs:
  source: {read: lines.jsonl, to: raw}
  double: {from: [more, raw], to: out, sql: SELECT n FROM raw UNION ALL SELECT n FROM more}
"""


def test_other_code_and_other_inputs_go_on_where_the_old_ones_were(
    java: Java, tmp_path: Path
) -> None:
    """All that is in files is worked off; what was read is not read again, whatever changes."""

    def drained(text: str, *lines: int) -> dict[str, int]:
        (tmp_path / "pipeline.yaml").write_text(text)
        with (tmp_path / "lines.jsonl").open("a") as file:
            file.writelines(f'{{"n": {n}}}\n' for n in lines)
        found = millrace(tmp_path, "run", "pipeline.yaml", "--until-drained", "-o", "json")
        assert found.returncode == 0, found.stderr
        jobs = json.loads(found.stdout)["jobs"]
        return {str(job): item["ledger"]["read"] for job, item in jobs.items()}

    assert drained(ONE, 1, 2, 3) == {"source": 3, "double": 3}
    assert drained(ONE.replace("2 * n", "3 * n"), 4) == {"source": 4, "double": 4}
    assert drained(BOTH, 5, 6) == {"source": 6, "double": 2}, "another folder, from the old places"


def test_what_is_asked_for_in_vain(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    for job, message in {
        "all": "it keeps no state per key",
        "sums": "never ran here",
        "sum": "did you mean 'sums'?",
    }.items():
        found = millrace(tmp_path, "state", "show", job)
        assert (found.returncode, message in found.stderr) == (1, True), found.stderr
