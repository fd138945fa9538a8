"""`millrace up` as a process: nobody need listen for it to stop as planned."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.cli.lasting import asked_to_stop, stopping

LIMIT = 60.0


def test_it_stops_as_planned_though_nobody_hears_it_any_more(tmp_path: Path) -> None:
    """The program behind its pipe ended before it, as with `millrace up 2>&1 | tee log`."""
    home = tmp_path / "home"
    command = [sys.executable, "-m", "millrace.cli", "up", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([*command, "--home", str(home)], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = ""
        while "the coordinator is up" not in said:
            said = process.stderr.readline()
            assert said, process.wait(LIMIT)
        process.stderr.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0
    finally:
        process.kill()
        process.wait(LIMIT)
    log = (home / "coordinator" / "coordinator.log").read_text()
    assert "Traceback" not in log


TOLD = """
import sys, time
from millrace.cli.output import say
sys.stdin.readline()
for _ in range(3):
    say("beside")
print("the result")
"""


def test_results_arrive_though_nobody_hears_what_is_said_beside() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        process.stderr.close()
        process.stderr = None
        assert process.communicate("go\n", LIMIT)[0] == "the result\n"
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_stop(number: signal.Signals) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests may run by `nohup`
    try:
        with asked_to_stop() as asked:
            os.kill(os.getpid(), number)
            assert asked.wait(LIMIT)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_nohup_is_heeded() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert signal.SIGHUP not in stopping()
    finally:
        signal.signal(signal.SIGHUP, before)
