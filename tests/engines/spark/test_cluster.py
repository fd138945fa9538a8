"""A job on a Spark cluster: a real master and a worker on this machine."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from millrace.engines.spark.engine import SparkEngine
from millrace.machine import Child, Java
from millrace.machine.process import session_members
from tests.engines.spark.lab import Lab, json_record, objects, wait_until

pytestmark = [pytest.mark.xdist_group("spark-cluster"), pytest.mark.timeout(600)]
LOOPBACK = "127.0.0.1"


def daemon(java: Java, place: Path, name: str, *arguments: str) -> Child:
    """Start a daemon of Spark's standalone cluster, with ports that the system chooses."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_WORKER_DIR": str(place / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    options = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
    log = place / f"{name.replace('.', '-')}.log"
    return Child.start([*command, *options, *arguments], log, environment=environment)


def said(place: Path, name: str, pattern: str) -> str:
    """Wait until a daemon's log says something, and return it."""
    log = place / f"{name.replace('.', '-')}.log"
    wait_until(lambda: re.search(pattern, log.read_text()) is not None, log.read_text)
    found = re.search(pattern, log.read_text())
    assert found is not None
    return found[1]


@pytest.fixture
def master(java: Java, tmp_path: Path) -> Iterator[str]:
    """Run a cluster of one worker; gives its address, and leaves none of its processes."""
    with ExitStack() as stack:
        first = daemon(java, tmp_path, "master.Master")
        stack.callback(first.end, 0)
        address = said(tmp_path, "master.Master", r"Starting Spark master at (spark://\S+)")
        size = ("--cores", "2", "--memory", "1g")
        second = daemon(java, tmp_path, "worker.Worker", *size, address)
        stack.callback(second.end, 0)
        said(tmp_path, "worker.Worker", r"Successfully registered with master (\S+)")
        yield address
    assert session_members(first.pid) == session_members(second.pid) == []


def test_a_job_on_a_cluster(
    lab: Lab, java: Java, connector: Path, master: str, tmp_path: Path
) -> None:
    """Executors get the jars of the connector, the user's code and the Python of the driver."""
    options = {"spark.executor.memory": "600m", "spark.driver.host": LOOPBACK}
    engine = SparkEngine(
        tmp_path / "driver", java, [connector], master=master, options=options
    )  # fmt: skip
    text = """
    defaults: {jobs: {mode: drain}}
    streams: {raw: {schema: {n: int}}, out: {}, mapped: {schema: {n: int}}}
    jobs:
      even: {from: raw, to: out, sql: "SELECT n FROM raw WHERE n % 2 = 0"}
      next: {from: raw, to: mapped, map: "code:following"}
    """
    code = "def following(record):\n    return {'n': record['n'] + 1}\n"
    try:
        engine.wait()
        with Lab(lab.kafka, engine, tmp_path / "lab", "cluster").case(text, code=code) as case:
            case.send("raw", [json_record(n=n) for n in range(10)])
            case.drain()
            assert [item["n"] for item in objects(case.read("out"))] == [0, 2, 4, 6, 8]
            assert sorted(item["n"] for item in objects(case.read("mapped"))) == list(range(1, 11))
            assert case.fates("even", 10).written == {"out": 5}
        executors = list((tmp_path / "work").glob("app-*/*/stderr"))
        assert len(executors) == 1
    finally:
        engine.close()
        shutil.rmtree(tmp_path / "work", ignore_errors=True)
