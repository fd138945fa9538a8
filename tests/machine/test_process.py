"""Processes end, all of them, and it is proven."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.machine import Child, end_session, leashed
from millrace.machine.process import session_members, started_at

LIMIT = 20.0
STUBBORN = "trap '' TERM; sh -c \"trap '' TERM; echo two; sleep 300\" & echo one; sleep 300; wait"


def eventually(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_a_child_gets_log_environment_and_descriptors(tmp_path: Path) -> None:
    log = tmp_path / "new" / "log"
    mine, theirs = os.pipe()
    try:
        child = Child.start(
            ["sh", "-c", f"echo $WORD; echo err >&2; cat; echo told >/proc/self/fd/{theirs}"],
            log,
            environment={"WORD": "hello", "PATH": os.environ["PATH"]},
            keep=(theirs,),
        )
        assert child.process.wait(LIMIT) == 0
        assert os.read(mine, 10) == b"told\n"
    finally:
        os.close(mine)
        os.close(theirs)
    assert not child.alive
    Child.start(["echo", "again"], log).process.wait(LIMIT)
    assert log.read_text() == "hello\nerr\nagain\n"


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Child.start(["/nowhere/program"], tmp_path / "log")


def test_one_that_obeys_is_not_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = Child.start(
        ["sh", "-c", "trap 'echo bye; exit 3' TERM; echo up; sleep 300 & wait"], log
    )
    assert eventually(lambda: "up" in log.read_text())
    child.end(LIMIT)
    assert child.process.returncode == 3
    assert "bye" in log.read_text()
    assert session_members(child.pid) == []


def test_a_whole_session_ends_though_it_ignores_the_signal(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = Child.start(["sh", "-c", STUBBORN], log)
    assert eventually(lambda: {"one", "two"} <= set(log.read_text().split()))
    assert eventually(lambda: len(session_members(child.pid)) >= 3)
    begun = time.monotonic()
    child.end(0.3)
    assert 0.3 <= time.monotonic() - begun < LIMIT
    assert child.process.returncode == -signal.SIGKILL
    assert session_members(child.pid) == []
    child.end(0.3)


def test_what_a_dead_child_left_is_ended_too(tmp_path: Path) -> None:
    child = Child.start(["sh", "-c", "sleep 300 & exit 0"], tmp_path / "log")
    assert child.process.wait(LIMIT) == 0
    assert len(session_members(child.pid)) == 1
    child.end(1)
    assert session_members(child.pid) == []


def test_ending_a_session_leaves_others_alone(tmp_path: Path) -> None:
    one = Child.start(["sleep", "300"], tmp_path / "log")
    two = Child.start(["sleep", "300"], tmp_path / "log")
    try:
        end_session(one.pid)
        assert session_members(one.pid) == []
        assert two.alive
        assert started_at(one.pid) == 0.0
        assert abs(started_at(two.pid) - time.clock_gettime(time.CLOCK_BOOTTIME)) < LIMIT
    finally:
        one.end(0)
        two.end(0)
    end_session(one.pid)


PARENT = """
import sys
from pathlib import Path
from millrace.machine import Child, leashed
child = Child.start(leashed(["sleep", "300"]), Path(sys.argv[1]))
print(child.pid, flush=True)
sys.stdin.readline()
"""


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def test_a_leashed_child_ends_with_its_parent(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path / "log"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        try:
            assert eventually(lambda: command_of(pid).startswith("sleep"))
            parent.kill()
            assert parent.wait(LIMIT) == -signal.SIGKILL
            assert eventually(lambda: session_members(pid) == [])
        finally:
            end_session(pid)


def test_a_leashed_child_outlives_the_thread_that_asked_for_it(tmp_path: Path) -> None:
    """Linux sends the signal when the thread ends that started the child."""
    children: list[Child] = []

    def work() -> None:
        children.append(Child.start(leashed(["sleep", "300"]), tmp_path / "log"))
        assert eventually(lambda: command_of(children[0].pid).startswith("sleep"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(LIMIT)
    [child] = children
    try:
        task = Path(f"/proc/self/task/{thread.native_id}")
        assert eventually(lambda: not task.exists())
        with pytest.raises(subprocess.TimeoutExpired):
            child.process.wait(0.3)
    finally:
        child.end(0)


def test_a_leash_whose_parent_is_gone_starts_nothing(tmp_path: Path) -> None:
    command = leashed(["touch", str(tmp_path / "made")])
    command[3] = "1" if os.getpid() != 1 else "2"
    assert subprocess.run(command, timeout=LIMIT, check=False).returncode == 1
    assert not (tmp_path / "made").exists()


def test_a_forked_process_starts_children_of_its_own(tmp_path: Path) -> None:
    """The thread that starts children is not there in a fork; another one must be."""
    code = (
        "import os, sys, warnings; warnings.simplefilter('ignore')\n"
        "from pathlib import Path; from millrace.machine import Child\n"
        "log = Path(sys.argv[1]); Child.start(['true'], log).process.wait(10)\n"
        "pid = os.fork()\n"
        "if pid == 0: os._exit(Child.start(['sh', '-c', 'exit 7'], log).process.wait(10))\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "log"], timeout=LIMIT, check=False
    )
    assert done.returncode == 7
