"""kill -9 of a coordinator at everything that it keeps or does: what comes after is right."""
# ruff: noqa: S608 - queries of a pipeline text, from constants

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.ports import Broker, Engine, Store
from tests.coordinator.played import LOOKS

pytestmark = pytest.mark.timeout(300)
HEAD = """
pipeline: roads
sites: {north: {broker: kafka}, cloud: {broker: kafka}}
streams:
  raw: {site: north, schema: {n: int}, partitions: 2}
"""
BEFORE = (
    HEAD
    + """
  even: {site: north}
  old: {site: north}
jobs:
  even: {site: north, from: raw, to: even, sql: SELECT n FROM raw}
  half: {site: north, from: even, to: old, sql: SELECT n FROM even}
  same: {site: cloud, from: raw, sql: SELECT n FROM raw}
"""
)
AFTER = (
    HEAD
    + """
  even: {site: north, partitions: 3}
  out: {site: cloud}
jobs:
  even: {site: north, from: raw, to: even, sql: SELECT n FROM raw}
  half: {site: cloud, from: even, to: out, sql: SELECT n FROM even}
  same: {site: cloud, from: raw, sql: SELECT n FROM raw}
"""
)
NORTH = [["even", "north"], ["half", "north"], ["same", "cloud"]]
CLOUD = [["even", "north"], ["half", "cloud"], ["same", "cloud"]]


def played(home: Path, *files: Path, **environment: str) -> int:
    command = [sys.executable, "-m", "tests.coordinator.played", str(home), *map(str, files)]
    done = subprocess.run(command, check=False, env={**os.environ, **environment}, timeout=120)
    return done.returncode


def test_every_place_of_an_apply_can_be_the_last(tmp_path: Path) -> None:
    """After each a new coordinator finds its way by itself: one instance of each job."""
    before, after, log = tmp_path / "1.yaml", tmp_path / "2.yaml", tmp_path / "places"
    before.write_text(BEFORE)
    after.write_text(AFTER)
    base = tmp_path / "base"
    base.mkdir()
    assert played(base, before) == 0
    assert json.loads((base / "running.json").read_text()) == NORTH
    calm = copied(base, tmp_path / "calm")
    assert played(calm, after, MILLRACE_FAILPOINT_LOG=str(log)) == 0
    assert json.loads((calm / "running.json").read_text()) == CLOUD
    places = list(dict.fromkeys(log.read_text().split()))
    covered(places)
    found: set[str] = set()
    for number, place in enumerate(places):
        home = copied(base, tmp_path / f"at-{number}")
        code = played(home, after, MILLRACE_FAILPOINT=place)
        assert code in (0, -signal.SIGKILL), place  # threads may come to a place less often
        assert played(home) == 0, place
        running = json.loads((home / "running.json").read_text())
        assert running in (NORTH, CLOUD), place
        assert not (home / "violations").exists(), place
        found.add(json.dumps(running))
    assert found == {json.dumps(NORTH), json.dumps(CLOUD)}


def copied(base: Path, home: Path) -> Path:
    home.mkdir()
    for file in base.iterdir():
        if file.is_file() and file.name != "running.json":
            (home / file.name).write_bytes(file.read_bytes())
    return home


def covered(places: list[str]) -> None:
    """Every method of a port that changes something is among the places, before and after."""
    ports = {"broker": Broker, "engine": Engine, "store": Store}
    for name, port in ports.items():
        for method, _ in inspect.getmembers(port, inspect.isfunction):
            if method.startswith("_") or method in LOOKS or (name, method) in ELSEWHERE:
                continue
            for moment in ("before", "after"):
                assert f"{name}.{method}.{moment}#1" in places, (name, method)


#: What a change like this one does not do.
ELSEWHERE = {("engine", "close"), ("broker", "stop"), ("store", "compact"), ("store", "close")}
