"""kill -9 of `millrace up` at three places of changes, on a real Kafka and a real Spark.

After each the next start goes on by itself: one driver, one query for each job, and each record
arrives once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from millrace.brokers.kafka import AttachedKafka
from millrace.client import Client
from millrace.errors import OperationFailed
from millrace.machine.process import session_members
from millrace.ports import Log, Record
from millrace.spec import load_text
from millrace.wire import pipeline_document
from tests.cli.running import drivers, until

pytestmark = pytest.mark.timeout(400)
#: A start, or a change, on a busy machine.
LIMIT = 120.0
FILE = """
pipeline: kills
sites: {here: {broker: kafka}}
streams:
  raw: {schema: {n: int}, partitions: 2}
  even: {partitions: 2}
  out: {partitions: 2}
jobs:
  even: {from: raw, to: even, sql: "SELECT n FROM raw WHERE n % 2 = 0", mode: micro-batch}
  half: {from: even, to: out, sql: "SELECT n DIV 2 AS h, VERSION AS v FROM even", mode: micro-batch}
"""


def version(number: int) -> dict[str, Any]:
    return pipeline_document(load_text(FILE.replace("VERSION", str(number))).required())


@dataclass
class Kept:
    """A home, and who serves it."""

    home: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    sent: int = 0

    def up(self, place: str = "") -> None:
        """Start a coordinator that ends when it comes to a place, and wait until it serves."""
        said = self.home.with_name(f"{len(self.processes)}.said")
        chosen = {"MILLRACE_FAILPOINT": place} if place else {}
        command = [sys.executable, "-m", "millrace.cli", "up", "--listen", "127.0.0.1:0"]
        with said.open("wb") as out:
            process = subprocess.Popen(
                [*command, "--home", str(self.home)], stdout=out, stderr=out,
                start_new_session=True, env={**os.environ, "NO_COLOR": "1", **chosen},
            )  # fmt: skip
        self.processes.append(process)
        until(lambda: "the coordinator is up" in said.read_text(), LIMIT, said.read_text())

    @property
    def client(self) -> Client:
        return Client.local(self.home)

    def killed_by(self, wanted: dict[str, Any]) -> None:
        """Apply something that the coordinator does not live to see the end of."""
        with self.client as client, suppress(OperationFailed):  # it may end before it answers
            client.apply(wanted)
        assert self.processes[-1].wait(LIMIT) == -signal.SIGKILL

    def converged(self, number: int) -> None:
        """Wait until a version is in force and runs; one driver, and one query for each job."""
        with self.client as client:
            operation = client.wait(f"kills.{number}", LIMIT)
            assert operation["state"] == "done", operation
            until(lambda: _runs(client) is not None, LIMIT, str(client.jobs("kills")))
            runs = _runs(client)
            assert runs is not None
            assert len(set(runs.values())) == 2, runs
        assert len(drivers(self.home)) == 1

    def log(self) -> Log:
        with self.client as client:
            (address,) = client.site("here")["brokers"].values()
        return AttachedKafka({"bootstrap.servers": address}).log

    def send(self, count: int = 200) -> None:
        numbers = range(self.sent, self.sent + count)
        records = [Record(json.dumps({"n": n}).encode(), str(n).encode()) for n in numbers]
        self.log().write("raw", records)
        self.sent += count

    def check(self) -> None:
        """All results of what was sent so far are there, each once."""
        log, wanted = self.log(), Counter(range(self.sent // 2))
        until(lambda: _count(log) >= wanted.total(), LIMIT, f"{wanted.total()} results")
        ends = {part: span.end for part, span in log.ends("out").items()}
        found = log.read("out", dict.fromkeys(ends, 0), ends)
        assert Counter(json.loads(record.value or b"")["h"] for record in found) == wanted

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(60)
            assert session_members(process.pid) == []


def _runs(client: Client) -> dict[str, str] | None:
    """The engine's names of the queries, when all jobs run."""
    jobs = {job["name"]: job for job in client.jobs("kills")}
    if [job["state"] for job in jobs.values()] != ["running"] * 2:
        return None
    return {name: job["run"] for name, job in jobs.items() if job["run"]}


def _count(log: Log) -> int:
    return sum(span.end - span.first for span in log.ends("out").values())


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path / "home")
    try:
        yield made
    finally:
        made.end()


def test_a_coordinator_that_is_killed_three_times_goes_on_three_times(kept: Kept) -> None:
    begun = time.monotonic()
    kept.up("journal.intent.after#1")
    kept.killed_by(version(1))
    kept.up("engine.start.after#3")  # two starts are those of the first version
    kept.converged(1)
    kept.send()
    kept.check()
    kept.send()
    kept.killed_by(version(2))
    kept.up("journal.result.before#2")  # the first is that of the second version
    kept.converged(2)
    kept.send()
    kept.killed_by(version(3))
    kept.up()
    kept.converged(3)
    kept.send()
    kept.check()
    print(f"three kills took {time.monotonic() - begun:.0f} s")  # noqa: T201 - for -s
