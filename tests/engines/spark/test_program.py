"""Programs of their own: what reaches them, who can read it, and when they are given up."""

from __future__ import annotations

import json
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from millrace.engines.spark.program import ProgramEngine
from millrace.errors import OperationFailed
from millrace.machine import Java
from millrace.ports import JobOrder, JobState, JobStatus
from millrace.spec import load_text

TEXT = """
pipeline: p
sites: {here: {broker: kafka}}
streams: {raw: {schema: {n: int}}}
jobs:
  own: {from: raw, jar: {path: own.py}, options: {OPTIONS}}
"""
#: Says what Spark knows, and its own arguments and those of its parents.
SAYS = """
import json, os, psutil
from pyspark import SparkConf, SparkContext
SparkContext._ensure_initialized()
lines = [" ".join(p.cmdline()) for p in [psutil.Process(), *psutil.Process().parents()]]
with open(os.environ["SAID"], "w") as file:
    json.dump({"settings": dict(SparkConf().getAll()), "lines": lines}, file)
"""
SECRET = "se:same=\\ é"  # noqa: S105 - of a test


def order(place: Path, options: str = "") -> JobOrder:
    pipeline = load_text(TEXT.replace("OPTIONS", options), "p.yaml").required()
    settings = {"bootstrap.servers": "127.0.0.1:9", "sasl.jaas.config": SECRET}
    return JobOrder(pipeline, pipeline.jobs["own"], {"here": settings}, place / "job", place)


@contextmanager
def engine(place: Path, java: Java, **options: str) -> Iterator[ProgramEngine]:
    found = ProgramEngine(place / "driver", java, [], options=options)
    try:
        yield found
    finally:
        found.kill()


def ended(programs: ProgramEngine) -> JobStatus:
    until = time.monotonic() + 60
    while (status := programs.status()["own"]).state is JobState.RUNNING:
        assert time.monotonic() < until, programs.log.read_text()
        time.sleep(0.05)
    return status


def test_settings_reach_a_program_and_nobody_else(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    monkeypatch.setenv("SAID", str(tmp_path / "said.json"))
    (tmp_path / "own.py").write_text(SAYS)
    files = (tmp_path / "driver" / "spark.properties", tmp_path / "job" / "client.properties")
    for file in files:
        file.parent.mkdir()
        file.write_text("")
        file.chmod(0o644)  # one that was there before is not trusted
    options = "spark.driver.memory: 700m, spark.sql.session.timeZone: Asia/Tokyo"
    with engine(tmp_path, java, **{"spark.hidden": SECRET}) as programs:
        programs.start(order(tmp_path, options))
        status = ended(programs)
        assert status.state is JobState.ENDED, programs.log.read_text()
    said = json.loads((tmp_path / "said.json").read_text())
    settings = said["settings"]
    assert settings["spark.hidden"] == SECRET
    assert settings["spark.driver.memory"] == "700m"
    assert settings["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert settings["spark.millrace.bootstrap"] == "127.0.0.1:9"
    assert any("-Xmx700m" in line for line in said["lines"])
    assert not any("same=" in line for line in said["lines"])
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "same=\\\\ \\u00e9" in file.read_text()


def test_a_program_that_fails_at_once_is_given_up(java: Java, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("")
    told = order(tmp_path)
    found = []
    with engine(tmp_path, java, **{"spark.driver.memory": "no size"}) as programs:
        for _ in range(3):
            programs.start(told)
            found.append(ended(programs))
        words = programs.log.read_text()
    assert [status.state for status in found] == [JobState.FAILED] * 3
    assert [status.transient for status in found] == [True, True, False]
    assert "3 times in a row" in found[2].error
    assert "no size" in found[2].error
    assert str(programs.log) in found[2].hint
    assert words.count("no size") >= 3, "what it said before is kept"


def test_options_that_a_program_may_not_give(java: Java, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("")
    with engine(tmp_path, java) as programs:
        for option, hint in (("spark.driver.memori", "spark.driver.memory"), ("a.b", "may give")):
            with pytest.raises(OperationFailed, match="not a setting that a job may") as failed:
                programs.examine([order(tmp_path, f"{option}: 1g")])
            assert hint in failed.value.hint
