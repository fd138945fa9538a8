"""A cluster of our own: what it opens, what happens when it is closed or killed."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from millrace.engines.flink import FlinkEngine, ManagedFlink
from millrace.engines.flink.cluster import end_left
from millrace.engines.flink.settings import checked
from millrace.errors import OperationFailed
from millrace.machine import Child, Java
from millrace.machine.process import session_members, started_at
from millrace.ports import JobState
from tests.engines.flink.conftest import MakeOrder
from tests.engines.flink.waits import numbers, until, until_more, until_state


@pytest.fixture
def managed(flink: ManagedFlink) -> Iterator[ManagedFlink]:
    """Return the cluster, up, and leave nothing that runs in it."""
    flink.wait()
    yield flink
    for run in flink.runs.all():
        if run.lives:
            flink.stop(run.job)
        flink.forget(run.job)


def without_gaps(path: Path) -> bool:
    found = set(numbers(path))  # one look: the file grows
    return found == set(range(max(found) + 1))


def test_nothing_is_open_off_loopback(managed: ManagedFlink) -> None:
    open_at = {
        connection.laddr.ip
        for child in managed.cluster.children.values()
        for connection in psutil.Process(child.pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert {address.removeprefix("::ffff:") for address in open_at} == {"127.0.0.1"}
    assert managed.alive


def test_closed_it_keeps_its_jobs_savepoints(
    managed: ManagedFlink, order: MakeOrder, tmp_path: Path
) -> None:
    jobs = ("a", "b", "c")
    for job in jobs:
        managed.start(order(job))
        until_more(tmp_path / f"{job}.txt")
    pids = [child.pid for child in managed.cluster.children.values()]
    managed.close()
    assert [session_members(pid) for pid in pids] == [[], []]
    assert not managed.alive
    for job in jobs:
        kept = json.loads((order(job).place / "flink.json").read_text())
        assert kept["begin"].startswith("savepoints/")
        assert managed.status()[job].state is JobState.STOPPED
    for job in jobs:
        managed.start(order(job))
        until_more(tmp_path / f"{job}.txt")
        managed.stop(job)
        found = numbers(tmp_path / f"{job}.txt")
        assert found == list(range(len(found)))


def test_a_killed_jobmanager_costs_no_record(
    managed: ManagedFlink, order: MakeOrder, tmp_path: Path
) -> None:
    """Our own jobs go on from checkpoints; who is attached sees it away, then without its job."""
    managed.start(order("own"))
    attached = FlinkEngine(managed.page)
    attached.start(order("other"))
    until_more(tmp_path / "other.txt")
    attached.stop("other")
    attached.start(order("other"))
    saved = len(numbers(tmp_path / "other.txt"))
    until(lambda: any(order("own").place.glob("checkpoints/*/chk-*/_metadata")), "no checkpoint")
    os.kill(managed.cluster.children["jobmanager"].pid, signal.SIGKILL)
    status = until_state(managed, "own", JobState.FAILED)
    assert status.transient
    until(lambda: "can't be seen" in attached.status()["other"].error, attached.status)
    assert attached.status()["other"].state is JobState.RUNNING
    assert not attached.alive
    managed.wait()
    managed.start(order("own"))
    begin = json.loads((order("own").place / "flink.json").read_text())["begin"]
    assert begin.startswith("checkpoints/")
    until_more(tmp_path / "own.txt")
    assert without_gaps(tmp_path / "own.txt")
    lost = until_state(attached, "other", JobState.FAILED)
    assert lost.transient
    assert "savepoints/" in lost.hint
    attached.start(order("other"))
    found = until_more(tmp_path / "other.txt")
    assert without_gaps(tmp_path / "other.txt")
    assert found.count(0) == 1  # it did not begin anew
    assert found[:saved] == list(range(saved))
    attached.kill()


def test_a_killed_taskmanager_is_started_again(
    managed: ManagedFlink, order: MakeOrder, tmp_path: Path
) -> None:
    managed.start(order("own"))
    run = managed.status()["own"].run
    until_more(tmp_path / "own.txt")
    os.kill(managed.cluster.children["taskmanager"].pid, signal.SIGKILL)
    until_state(managed, "own", JobState.STARTING)
    assert until_state(managed, "own", JobState.RUNNING).run == run
    until_more(tmp_path / "own.txt")
    assert without_gaps(tmp_path / "own.txt")


def test_what_a_killed_agent_left_is_ended(tmp_path: Path) -> None:
    child = Child.start(["sleep", "100"], tmp_path / "log")
    known = {"pid": child.pid, "started": started_at(child.pid)}
    try:
        other = {**known, "started": known["started"] + 10}  # another program with its number
        (tmp_path / "cluster.json").write_text(json.dumps({"jobmanager": other}))
        end_left(tmp_path)
        assert child.alive
        (tmp_path / "cluster.json").write_text(json.dumps({"jobmanager": known}))
        end_left(tmp_path)
        assert not child.alive
    finally:
        child.end(0)


def test_libraries_that_are_missing_are_told(
    tmp_path: Path, java: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    began = time.monotonic()
    with pytest.raises(OperationFailed) as caught:
        ManagedFlink(tmp_path, java).wait()
    assert caught.value.code == "no-flink"
    assert "millrace[flink]" in caught.value.hint
    assert time.monotonic() - began < 5


def test_settings_of_a_site() -> None:
    assert checked({"taskmanager.numberOfTaskSlots": "4"}) == {"taskmanager.numberOfTaskSlots": "4"}
    with pytest.raises(OperationFailed, match="numberOfTaskSlots"):
        checked({"taskmanager.numberOfTaskSlot": "4"})
    with pytest.raises(OperationFailed, match="not a setting that a site"):
        checked({"rest.bind-address": "10.0.0.7"})
