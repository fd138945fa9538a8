"""What is shown on a terminal: tables that move, and questions."""

from __future__ import annotations

import itertools
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from httpcore._synchronization import ThreadLock

from millrace.cli import main
from millrace.cli.interrupt import insisting
from millrace.cli.top import Board
from millrace.cli.views.changes import as_planned, failed_text, outcome_text, progress_lines
from millrace.client import Client
from tests.api.house import House
from tests.cli.commands import Run
from tests.client.running import project
from tests.coordinator.forked import forked


@dataclass
class Terminal:
    """A command at a terminal of its own."""

    process: subprocess.Popen[bytes]
    master: int
    shown: bytearray = field(default_factory=bytearray)

    def until(self, text: str, limit: float = 60.0) -> None:
        """Read until a text is shown."""
        end = time.monotonic() + limit
        while text.encode() not in self.shown:
            assert time.monotonic() < end, self.shown.decode()
            self._read(0.5)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def ended(self, limit: float = 30.0) -> int:
        """Read what is still shown, or its writer would wait; returns how the command ended."""
        end = time.monotonic() + limit
        while self.process.poll() is None:
            assert time.monotonic() < end, self.shown.decode()
            self._read(0.05)
        self._read(0.0)
        return self.process.returncode

    def _read(self, seconds: float) -> None:
        if select.select([self.master], [], [], seconds)[0]:
            with suppress(OSError):  # nobody has the other side any more
                self.shown += os.read(self.master, 65536)


@contextmanager
def terminal(home: Path, *arguments: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "millrace.cli", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env={**os.environ, "MILLRACE_HOME": str(home), "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait(10)
        os.close(master)


def test_a_person_is_asked_and_tables_move(run: Run, house: House, tmp_path: Path) -> None:
    file, home = project(tmp_path / "project"), tmp_path / "home"
    with terminal(home, "apply", "-f", str(file)) as shell:
        shell.until("Do it?")
        shell.type("n\n")
        shell.until("nothing was changed")
        assert shell.ended() == 1
    assert house.station.pipelines() == []
    assert run("apply", "-f", str(file)).returncode == 0
    for command in (["top"], ["get", "jobs", "-w"]):
        with terminal(home, *command) as shell:
            shell.until("traffic/seen")
            shell.shown.clear()
            shell.until("traffic/seen")  # drawn again
            shell.process.send_signal(signal.SIGINT)
            assert shell.ended() == 130
            assert b"Traceback" not in shell.shown


class Lost:
    """Ctrl-C while it is collected: what that raises, Python does not pass on."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def interrupted_where_it_is_lost() -> None:
    def fetched(self: Board, client: Client) -> None:
        Lost()
        time.sleep(600)

    Board.fetched = fetched  # type: ignore[method-assign]
    main.run()


def interrupted_behind_a_lock() -> None:
    """The lock of the pool of connections stays taken, and who closes the pool waits for it."""
    enter, entered = ThreadLock.__enter__, itertools.count()

    def taken(lock: ThreadLock) -> ThreadLock:
        enter(lock)
        if next(entered) == 0:
            signal.raise_signal(signal.SIGINT)
        return lock

    ThreadLock.__enter__ = taken  # type: ignore[method-assign]
    main.run()


@pytest.mark.parametrize("program", [interrupted_where_it_is_lost, interrupted_behind_a_lock])
def test_one_ctrl_c_is_enough(house: House, tmp_path: Path, program: Callable[[], None]) -> None:
    home, said = str(tmp_path / "home"), tmp_path / "said"
    command = forked(program, ["top"], said, MILLRACE_HOME=home)
    try:
        assert command.wait(30) == 130
    finally:
        command.kill()


def test_what_others_do_with_signals_is_left_as_it_was() -> None:
    """A command in somebody else's process, as in these tests, has its clock and its handlers."""
    handler, clock = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    with pytest.raises(KeyboardInterrupt), insisting():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == pytest.approx(clock, abs=2)


JOB = {"pipeline": "p", "name": "j", "batch": 1, "at": 5.0, "lag": {}, "rows_per_second": 0.0}


def test_the_age_of_a_batch_is_that_of_its_number() -> None:
    board = Board({("p", "j"): dict(JOB)})
    told = {"pipeline": "p", "name": "j", "batch": 1, "rows_per_second": 2.0}
    assert not board.told({"at": 9.0, "jobs": [told]})
    assert (board.jobs["p", "j"]["at"], board.jobs["p", "j"]["rows_per_second"]) == (5.0, 2.0)
    assert not board.told({"at": 9.0, "jobs": [{**told, "batch": 2}]})
    assert board.jobs["p", "j"]["at"] == 9.0
    assert board.told({"at": 9.0, "jobs": []})


def view(state: str, *steps: str) -> dict[str, object]:
    over = state != "running"
    return {
        "id": "p.2",
        "pipeline": "p",
        "state": state,
        "over": over,
        "reason": "why",
        "done": steps.count("done"),
        "total": len(steps),
        "before": 1,
        "wanted": 2,
        "at": 1.0,
        "ended": 3.0 if over else None,
        "steps": [
            {"id": f"create job {n}", "place": "here", "state": step, "foreseen": 1.0}
            for n, step in enumerate(steps)
        ],
    }


def test_each_step_is_told_once_and_the_end_last() -> None:
    told: dict[str, str] = {}
    lines = [
        *progress_lines(view("running", "ordered", "waiting"), told),
        *progress_lines(view("running", "done", "ordered"), told),
        *progress_lines(view("done", "done", "done"), told),
        *progress_lines(view("done", "done", "done"), told),
    ]
    assert lines == [
        "p.2: running",
        "  begun: create job 0 at here",
        "  [1/2] create job 0 at here",
        "  begun: create job 1 at here",
        "  [2/2] create job 1 at here",
        "p.2: done",
    ]


def test_every_end_is_told_with_its_way_out() -> None:
    for state in ("undone", "refused", "stuck", "running"):
        message, hint = failed_text(view(state, "done"))
        assert hint
        assert "p.2" in message
    assert outcome_text(view("done", "done")) == "p: revision 2 is in force after 2 s"
    assert outcome_text(view("running", "waiting")) == "p: p.2 is running"
    planned = as_planned(view("done", "done"), {"steps": [{"id": "create job 0", "foreseen": 7}]})
    assert planned["steps"][0]["foreseen"] == 7
