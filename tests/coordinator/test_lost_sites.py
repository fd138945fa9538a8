"""Sites that are lost while records pass, with a real Kafka, a real Spark and real agents.

One is cut off until the lease of its job runs out; another one dies with all it ran, and a user
vouches for that.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from millrace.brokers.kafka import AttachedKafka
from millrace.client import Client
from millrace.measure.fault import RunReport
from millrace.measure.load import Load
from millrace.measure.run import run_check
from millrace.ports import Log
from tests.cli.running import drivers, until
from tests.coordinator.between import Between, between

pytestmark = pytest.mark.timeout(500)
#: A start, or a change, on a busy machine.
LIMIT = 150.0
RATE = 500
LEASE = 5.0
#: What a job may do again: all since its last report that arrived, till it stopped at its lease.
AGAIN_SECONDS = LEASE + 30.0
FILE = """
pipeline: lost
sites: {north: {}, south: {}, hub: {broker: kafka}}
defaults:
  streams:
    site: hub
    key: key
    partitions: 2
    schema: {run: string, writer: int, seq: long, key: string, sent: long, pad: string, crc: long}
streams: {in: {}, out: {}}
jobs:
  copy: {site: SITE, from: in, to: out, sql: "SELECT * FROM `in`", mode: micro-batchMORE}
"""


@dataclass
class Place:
    """A coordinator and agents, as processes of their own."""

    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *arguments: str) -> Path:
        """Start a command; returns the file of what it says."""
        said = self.folder / f"{name}.said"
        command = [sys.executable, "-m", "millrace.cli", *arguments]
        with said.open("wb") as out:
            self.processes[name] = subprocess.Popen(
                [*command, "--home", str(self.folder / name)], stdout=out, stderr=out,
                start_new_session=True, env={**os.environ, "NO_COLOR": "1"},
            )  # fmt: skip
        return said

    def up(self) -> int:
        """Start the coordinator; returns its port."""
        said = self.start("up", "up", "--listen", "127.0.0.1:0")
        until(lambda: "the coordinator is up" in said.read_text(), LIMIT, said.read_text())
        return int(self.client.settings.url.rpartition(":")[2])

    def agent(self, site: str, url: str) -> None:
        """Let a site join."""
        token = self.folder / f"{site}.token"
        with self.client as client:
            token.write_text(client.issue_token(site, site=site)["token"])
        token.chmod(0o600)
        self.start(site, "agent", "--join", url, "--token-file", str(token), "--site", site)

    @property
    def client(self) -> Client:
        return Client.local(self.folder / "up")

    def apply(self, site: str, more: str = "", *options: str) -> str:
        """Apply the file by the command line; returns what it says."""
        file = self.folder / "lost.yaml"
        file.write_text(FILE.replace("SITE", site).replace("MORE", more))
        command = [sys.executable, "-m", "millrace.cli", "apply", "-f", str(file), "--yes"]
        made = subprocess.run(
            [*command, *options, "--home", str(self.folder / "up")], capture_output=True,
            text=True, timeout=LIMIT, env={**os.environ, "NO_COLOR": "1"}, check=False,
        )  # fmt: skip
        assert made.returncode == 0, made
        self.await_running(site)
        return made.stdout + made.stderr

    def await_running(self, site: str, limit: float = LIMIT) -> None:
        """Wait until the job runs at a site."""

        def there() -> bool:
            with self.client as client:
                (job,) = client.jobs("lost")
            return bool((job["site"], job["state"]) == (site, "running"))

        until(there, limit, f"the job runs at {site}")

    def log(self) -> Log:
        with self.client as client:
            (address,) = client.site("hub")["brokers"].values()
        return AttachedKafka({"bootstrap.servers": address}).log

    def kill(self, site: str) -> None:
        """Let a site die at once, with all that runs there."""
        agent = psutil.Process(self.processes[site].pid)
        for process in [agent, *agent.children(recursive=True), *drivers(self.folder / site)]:
            if process.is_running():
                process.kill()
        self.processes[site].wait(30)
        # Large ones that were killed need a moment to go.
        until(lambda: drivers(self.folder / site) == [], 30.0, f"all of {site} is gone")

    def end(self) -> None:
        for process in reversed(self.processes.values()):
            if process.poll() is None:
                process.terminate()
                process.wait(90)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def proxied(place: Place) -> Iterator[Between]:
    """A coordinator whose sites reach it by a way that can be cut: north; and another: south."""
    port = place.up()
    with between(port) as made:
        place.agent("north", made.url)
        place.agent("south", f"http://127.0.0.1:{port}")
        yield made


@contextmanager
def under_load(log: Log, run: str) -> Iterator[Future[RunReport]]:
    """Send records while something happens, and then wait for what arrived of them."""
    over = threading.Event()
    load = Load(rate=RATE, seconds=2 * LIMIT, keys=20)
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(
            run_check, log, "in", log, "out", load,
            run=run, wait=LIMIT, settle=3.0, enough=over.is_set,
        )  # fmt: skip
        try:
            yield result
        finally:
            over.set()


def test_lost_sites_lose_no_record(place: Place, proxied: Between) -> None:
    place.apply("north", f", failover: {LEASE:g} s")
    log = place.log()
    with under_load(log, "cut") as result:
        until(lambda: log.ends("out")[0].end > RATE, LIMIT, "records arrive")
        proxied.cut = True
        cut = time.monotonic()
        place.await_running("south")
        print(f"failover: {time.monotonic() - cut:.1f} s after the cut")  # noqa: T201 - for -s
        proxied.cut = False
        until(lambda: _state(place, "north") == "up", LIMIT, "north is back")
    check(result.result())
    place.apply("south")  # without a lease from now on
    with under_load(log, "dead") as result:
        before = log.ends("out")[0].end
        until(lambda: log.ends("out")[0].end > before + RATE, LIMIT, "records arrive")
        place.kill("south")
        said = place.apply("north", "", "--site-lost", "south")
        assert "south" in said
    check(result.result())


def _state(place: Place, site: str) -> str:
    with place.client as client:
        return str(client.site(site)["state"])


def check(report: RunReport) -> None:
    """Nothing is missing or out of order; what came twice is what the promise allows."""
    again = report.report.duplicate.count
    print(f"{report.report.sent} sent, {again} twice")  # noqa: T201 - for -s
    assert report.problems(most_duplicates=round(RATE * AGAIN_SECONDS)) == []
