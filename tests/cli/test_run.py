"""`millrace run` as a user sees it: it starts, goes on where it stopped, leaves nothing."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from millrace.agent.brokers import log_of
from millrace.brokers.kafka import ManagedKafka
from millrace.machine import Folders, Java
from millrace.ports import Record
from millrace.spec import load
from tests.cli.running import UP, Running, running, until

PIPELINE = """
pipeline: first
sites: {here: {broker: kafka}}
streams:
  raw: {schema: {n: long}, partitions: 2, dead_letters: bad}
  mid: {transient: true}
  even: {partitions: 2}
  bad: {format: raw}
jobs:
  evens: {from: raw, to: mid, sql: "SELECT n FROM raw WHERE n % 2 = 0"}
  last: {from: mid, to: even, sql: "SELECT n FROM mid"}
"""
pytestmark = pytest.mark.timeout(500)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(PIPELINE)
    return path


def write(file: Path, home: Path, numbers: range) -> None:
    pipeline = load(file).required()
    log = log_of(pipeline, pipeline.streams["raw"], Folders.of(home))
    log.write("raw", [Record(b'{"n": %d}' % n, b"%d" % n) for n in numbers])


def evens(file: Path, home: Path) -> list[int]:
    pipeline = load(file).required()
    log = log_of(pipeline, pipeline.streams["even"], Folders.of(home))
    ends = log.ends("even")
    records = log.read("even", dict.fromkeys(ends, 0), {p: span.end for p, span in ends.items()})
    return sorted(json.loads(record.value or b"")["n"] for record in records)


def gone(processes: list[psutil.Process]) -> bool:
    return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes)


def test_runs_go_on_where_the_one_before_stopped(
    file: Path, tmp_path: Path, java: Java, jars: Path
) -> None:
    home = tmp_path / "home"
    with running(file, home) as first:
        first.await_said("first runs")
        with running(file, home, "--for", "1 s", told="refused.said") as refused:
            assert refused.process.wait(60) == 1
            assert "already runs" in refused.said
        write(file, home, range(100))
        until(lambda: len(evens(file, home)) == 50, UP, "the first records did not pass")
        write(file, home, range(100, 200))
        _end_at_once(first)
    with running(file, home, "--until-drained", "-o", "json") as second:
        second.await_said("first runs")
        started = second.children()
        assert second.process.wait(2 * UP) == 0, second.said
        assert gone(started), "a process is left"
        shown = json.loads(second.said_file.with_suffix(".out").read_text())
    ledgers = {name: job["ledger"] for name, job in shown["jobs"].items()}
    counts = {name: (one["read"], one["used"], one["filtered"]) for name, one in ledgers.items()}
    assert counts == {"evens": (200, 100, 100), "last": (100, 100, 0)}
    kafka = ManagedKafka(home / "pipelines/first/sites/here/kafka", java, jars)
    kafka.start()
    try:
        assert evens(file, home) == list(range(0, 200, 2))
    finally:
        kafka.stop()


def _end_at_once(run: Running) -> None:
    """Two Ctrl-C, one after another, end everything."""
    started = run.children()
    run.process.send_signal(2)
    run.await_said("stopping")
    run.process.send_signal(2)
    assert run.process.wait(10) in (0, 130)
    until(lambda: gone(started), 10, "a process is left")


def test_a_wrong_address_says_what_to_do(file: Path, tmp_path: Path) -> None:
    file.write_text(PIPELINE.replace("{broker: kafka}", '{broker: {address: "127.0.0.1:1"}}'))
    with running(file, tmp_path / "home") as found:
        assert found.process.wait(UP) == 1
        assert "no Kafka answers at 127.0.0.1:1" in found.said
        assert "is the address right" in found.said
