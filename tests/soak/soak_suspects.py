"""A job that ends its driver again and again gets one of its own; the others go on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from millrace.ports import JobState, Record
from tests.faults.rig import RECOVERY, rig

PIPELINE = """
pipeline: suspects
sites: {here: {broker: kafka}}
defaults: {streams: {schema: {n: long}}}
streams: {in: {}, good: {}, bad: {}}
jobs:
  fine: {from: in, to: good, sql: "SELECT n FROM `in`"}
  harmful: {from: in, to: bad, python: "harm:harm"}
"""
CODE = """
import os, pathlib

def harm(frame):
    if pathlib.Path(__file__).with_name("armed").exists():
        os.kill(os.getpid(), 9)
    return frame
"""
pytestmark = pytest.mark.timeout(600)


def test_a_harmful_job_is_set_apart(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "harm.py").write_text(CODE)
    with rig(tmp_path, PIPELINE) as running:
        first = running.driver_pid
        (code / "armed").touch()
        os.kill(first, signal.SIGKILL)
        file, drivers = running.runner.pipeline, running.shop.drivers
        running.work(lambda: drivers.name(file, "harmful") == "here/job-harmful", 3 * RECOVERY)
        assert drivers.name(file, "fine") == "here/main"
        told = [text for text in running.said if "a driver of its own" in text]
        assert len(told) == 1, running.said
        running.work(lambda: running.runner.statuses()["fine"].state is JobState.RUNNING, RECOVERY)
        running.broker.log.write("in", [Record(b'{"n": 1}')])
        running.work(lambda: running.held("good") == 1, RECOVERY)
        assert running.held("bad") == 0
        (code / "armed").unlink()
        running.work(lambda: running.held("bad") == 1, RECOVERY)
        running.work(running.settled, RECOVERY)
        assert running.held("good") == 1
