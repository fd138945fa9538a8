"""One driver per place: who holds it, who is refused, and what is left of the last holder."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from millrace.engines.spark import lease
from millrace.errors import OperationFailed
from millrace.machine.process import end_session, session_members, started_at


@contextmanager
def session(code: str = "import time; time.sleep(600)") -> Iterator[int]:
    """Run a process that leads a session of its own; all of it is ended."""
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        yield process.pid
    finally:
        end_session(process.pid)
        process.wait(10)


def hold(place: Path, pid: int, *, generation: int = 3, host: str = "", age: float = 0.0) -> None:
    """Write a lease of another process."""
    held = lease.Lease(generation, host or socket.gethostname(), pid, started_at(pid) - age)
    (place / "lease.json").write_text(json.dumps(asdict(held)))


def test_the_first_holder_has_the_first_generation(tmp_path: Path) -> None:
    place = tmp_path / "new"
    assert lease.holder(place) is None
    assert lease.clear(place) == 1
    held = lease.claim(place)
    assert (held.generation, held.pid, held.host) == (1, os.getpid(), socket.gethostname())
    assert lease.holder(place) == held
    assert {path.name for path in place.iterdir()} == {"lease.json", "lease.lock"}


def test_the_same_driver_may_claim_again(tmp_path: Path) -> None:
    assert [lease.claim(tmp_path).generation for _ in range(3)] == [1, 2, 3]


def test_a_living_holder_keeps_it(tmp_path: Path) -> None:
    with session() as pid:
        hold(tmp_path, pid)
        with pytest.raises(OperationFailed) as caught:
            lease.claim(tmp_path)
        assert (caught.value.code, caught.value.transient) == ("leased", True)
        assert str(pid) in caught.value.message
        held = lease.holder(tmp_path)
        assert held is not None
        assert held.pid == pid
    assert lease.claim(tmp_path).generation == 4


def test_what_a_dead_holder_left_running_keeps_it(tmp_path: Path) -> None:
    """The driver's leader is gone, but a process of its session could still write."""
    code = (
        "import subprocess, sys;"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    )
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    started = started_at(process.pid)
    process.wait(30)
    try:
        held = lease.Lease(3, socket.gethostname(), process.pid, started)
        (tmp_path / "lease.json").write_text(json.dumps(asdict(held)))
        assert session_members(process.pid) != []
        with pytest.raises(OperationFailed, match="another driver"):
            lease.claim(tmp_path)
        assert lease.clear(tmp_path) == 4
        assert session_members(process.pid) == []
        assert lease.claim(tmp_path).generation == 4
    finally:
        end_session(process.pid)


def test_clear_ends_the_last_session_and_only_that(tmp_path: Path) -> None:
    with session() as pid, session() as other:
        hold(tmp_path, pid)
        assert lease.clear(tmp_path) == 4
        assert session_members(pid) == []
        assert session_members(other) == [other]


def test_an_id_that_was_used_again_is_another_process(tmp_path: Path) -> None:
    """It is neither ended nor does it hold anything."""
    with session() as pid:
        hold(tmp_path, pid, age=100)
        assert lease.clear(tmp_path) == 4
        assert session_members(pid) == [pid]
        assert lease.claim(tmp_path).generation == 4


def test_a_holder_on_another_host_is_not_ended_from_here(tmp_path: Path) -> None:
    hold(tmp_path, 1, host="elsewhere")
    with pytest.raises(OperationFailed) as caught:
        lease.clear(tmp_path)
    assert (caught.value.code, caught.value.transient) == ("leased-elsewhere", False)
    assert "elsewhere" in caught.value.message
    assert "lease.json" in caught.value.hint


def test_who_let_go_is_in_nobodys_way(tmp_path: Path) -> None:
    """Neither here nor, with a folder that hosts share, elsewhere; generations still count up."""
    held = lease.claim(tmp_path)
    lease.let_go(tmp_path)
    left = lease.holder(tmp_path)
    assert left is not None
    assert (left.generation, left.pid) == (held.generation, lease.NOBODY)
    (tmp_path / "lease.json").write_text(json.dumps({**asdict(left), "host": "elsewhere"}))
    assert lease.clear(tmp_path) == 2
    assert lease.claim(tmp_path).generation == 2


def test_only_the_holder_lets_go(tmp_path: Path) -> None:
    with session() as pid:
        hold(tmp_path, pid)
        before = lease.holder(tmp_path)
        lease.let_go(tmp_path)
        assert lease.holder(tmp_path) == before
