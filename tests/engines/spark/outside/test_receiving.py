"""Receivers of a query's inputs: started again, given up, ended."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from millrace.engines.spark.outside.receiving import Receivers
from millrace.errors import OperationFailed
from millrace.ports import JobOrder, Reception
from millrace.spec import load_text

LIMIT = 30.0
FILE = load_text("""
pipeline: p
sites: {edge: {broker: mqtt}}
streams: {raw: {schema: {n: int}}, out: {}}
jobs: {one: {from: raw, to: out, sql: SELECT n FROM raw}}
""").required()
#: Notes its process, and on SIGUSR1 and SIGUSR2 what it was asked, then ends.
PROGRAM = """
import os, signal, sys, time
folder = sys.argv[1]
def ended(number, _):
    with open(f"{folder}/asked", "a") as file: file.write(signal.Signals(number).name)
    sys.exit(0)
for number in (signal.SIGUSR1, signal.SIGUSR2): signal.signal(number, ended)
with open(f"{folder}/pids", "a") as file: file.write(f"{os.getpid()}\\n")
time.sleep(120)
"""
REFUSED = "import sys; print('connecting'); print('no-rights: ask the owner'); sys.exit(2)"


@dataclass
class Plugin:
    """A plug-in whose receivers are small programs."""

    program: str = PROGRAM
    keeps: bool = False
    names: list[str] = field(default_factory=list)

    def receiver(self, told: Reception) -> Sequence[str]:
        self.names.append(told.name)
        return [sys.executable, "-c", self.program, str(told.folder)]


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Plugin:
    made = Plugin()
    monkeypatch.setattr("millrace.engines.spark.outside.receiving.plugin_of", lambda *_: made)
    return made


@pytest.fixture
def order(tmp_path: Path) -> JobOrder:
    place = tmp_path / "jobs" / "one" / "1"
    return JobOrder(FILE, FILE.jobs["one"], {"edge": {"address": "h"}}, place, tmp_path)


def spool(order: JobOrder) -> Path:
    return order.place.parent / "spools" / "raw"


def pids(order: JobOrder) -> list[int]:
    file = spool(order) / "pids"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_one_that_dies_is_started_again_and_all_end(plugin: Plugin, order: JobOrder) -> None:
    receivers = Receivers()
    receivers.begin(order)
    until(lambda: len(pids(order)) == 1)
    os.kill(pids(order)[0], signal.SIGKILL)
    until(lambda: len(pids(order)) == 2)
    receivers.end("one")
    assert not any(psutil.pid_exists(pid) for pid in pids(order))
    assert plugin.names == ["millrace/p/one/raw"] * 2
    receivers.end("one")  # nothing is there


@pytest.mark.parametrize(("left", "asked"), [((), "SIGUSR1"), (("raw",), "SIGUSR2")])
def test_one_may_be_asked_for_all_that_its_broker_has(
    plugin: Plugin, order: JobOrder, left: tuple[str, ...], asked: str
) -> None:
    del plugin
    receivers = Receivers()
    receivers.begin(order)
    until(lambda: len(pids(order)) == 1)
    receivers.end("one", drained=True, left=left)
    assert (spool(order) / "asked").read_text() == asked
    assert not psutil.pid_exists(pids(order)[0])


def test_one_that_is_refused_is_told_and_not_started_again(plugin: Plugin, order: JobOrder) -> None:
    plugin.program = REFUSED
    told: list[OperationFailed] = []
    receivers = Receivers(lambda _, failure: told.append(failure))
    receivers.begin(order)
    until(lambda: bool(told))
    (failure,) = told
    assert "no-rights: ask the owner" in failure.message
    assert not failure.transient
    assert len(plugin.names) == 1


def test_those_who_read_a_log_are_told_how_in_private(plugin: Plugin, order: JobOrder) -> None:
    plugin.keeps = True
    Receivers().begin(order)
    file = order.place / "log-raw.json"
    assert file.read_text() == '{"address": "h"}'
    assert file.stat().st_mode & 0o077 == 0
    assert plugin.names == []
