"""`millrace experiment`: as people type it, with an experiment that needs nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from millrace.cli.experiment import app
from millrace.experiment.registry import Registry
from tests.experiment.toys import Toy

Run = Callable[..., Result]
#: Runs a toy that gets stuck in its fourth run.
SLOW = """
from contextlib import contextmanager
from millrace.cli.experiment import app
from millrace.experiment.registry import Registry
from tests.experiment.toys import Toy

class Slow(Toy):
    @contextmanager
    def opened(self, cell, around):
        with super().opened(cell, around) as measure:
            def slow(run):
                if len(self.log) > 3:
                    around.pause(60)
                return measure(run)
            yield slow

registry = Registry({"toy": Slow})
Registry.installed = lambda: registry
app(["run", "toy", "--out", "found", "--no-plot"])
"""


@pytest.fixture
def toy() -> Toy:
    return Toy()


@pytest.fixture
def run(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    registry = Registry({"toy": lambda: toy})
    monkeypatch.setattr(Registry, "installed", lambda: registry)

    def run_command(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments), prog_name="millrace experiment")

    return run_command


def test_what_is_installed_is_listed(run: Run) -> None:
    done = run("list")
    assert done.exit_code == 0
    assert "toy    12 runs  Toys" in done.stdout
    assert json.loads(run("list", "-o", "json").stdout) == [
        {"name": "toy", "title": "Toys", "runs": 12}
    ]


def test_one_is_shown(run: Run) -> None:
    done = run("show", "toy")
    assert "size         1, 2, 3" in done.stdout
    assert "12 runs; with --quick 2" in done.stdout
    assert json.loads(run("show", "toy", "-o", "json").stdout)["matrix"]["size"] == [1, 2, 3]


def test_one_is_run(run: Run, toy: Toy, tmp_path: Path) -> None:
    done = run("run", "toy", "--quick", "--set", "size=2,3", "--seed", "9", "--out", "found")
    assert done.exit_code == 0, done.output
    assert [line for line in toy.log if line.startswith("run")] == [
        "run a2 9", "run a3 9", "run b2 9", "run b3 9",
    ]  # fmt: skip
    assert "kind  size" in done.stdout
    assert "[4/4] kind=b size=3, seed 9" in done.stderr
    assert {path.name for path in (tmp_path / "found").iterdir()} == {
        "results.jsonl", "table.txt", "table.csv", "page.md", "plot.svg", "plot.png",
    }  # fmt: skip
    assert (tmp_path / "found" / "table.txt").read_text() == done.stdout


def test_a_run_goes_on_where_it_was(run: Run, toy: Toy) -> None:
    assert run("run", "toy", "--quick", "--no-plot").exit_code == 0
    refused = run("run", "toy", "--quick", "--no-plot")
    assert refused.exit_code == 1
    assert "--resume" in refused.stderr
    toy.log.clear()
    assert run("run", "toy", "--quick", "--repeats", "2", "--no-plot", "--resume").exit_code == 0
    assert [line for line in toy.log if line.startswith("run")] == ["run a1 6", "run b1 6"]


def test_what_failed_is_told_by_the_exit_code(run: Run, toy: Toy) -> None:
    toy.fails = {("a", 1, 5)}
    done = run("run", "toy", "--quick", "--no-plot")
    assert done.exit_code == 1
    assert "1 runs failed" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("run", "tyo"), "did you mean toy?"),
        (("show", "tyo"), "did you mean toy?"),
        (("run", "toy", "--set", "sise=1"), "did you mean size?"),
        (("run", "none.yaml"), "can't be read"),
    ],
)
def test_what_is_typed_wrong_is_told(run: Run, arguments: tuple[str, ...], told: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 1
    assert told in done.stderr


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    """In a process of its own: the first Ctrl-C is enough, and all that was started ends."""
    program = tmp_path / "program.py"
    program.write_text(SLOW)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, str(program)], cwd=tmp_path, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        _await_lines(tmp_path / "found" / "results.jsonl", 3)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130, stderr
    assert "stopped; what was measured is in found" in stderr
    assert len(stdout.splitlines()) > 2  # the table of what there is
    assert (tmp_path / "found" / "page.md").exists()


def _await_lines(file: Path, count: int) -> None:
    until = time.monotonic() + 30
    while not file.exists() or len(file.read_text().splitlines()) < count:
        assert time.monotonic() < until, "no results came"
        time.sleep(0.05)
