"""`millrace new`: what it makes is valid, and its own tests pass."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from millrace.cli.main import app
from millrace.spec import load

RUNNER = CliRunner()
MADE = {
    "README.md",
    "jobs.py",
    "pipeline.schema.json",
    "pipeline.yaml",
    "sample.jsonl",
    "test_jobs.py",
}


def new(*arguments: str) -> Result:
    return RUNNER.invoke(app, ["new", *arguments])


def said(done: Result) -> str:
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return " ".join(done.stderr.split())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    done = new("traffic", "--dir", str(tmp_path))
    assert done.exit_code == 0
    assert done.stdout == ""
    assert f"next: cd {tmp_path / 'traffic'} && millrace run pipeline.yaml" in said(done)
    return tmp_path / "traffic"


def test_the_project_is_whole_and_valid(project: Path) -> None:
    assert {path.name for path in project.iterdir()} == MADE
    done = RUNNER.invoke(app, ["validate", str(project / "pipeline.yaml")])
    assert done.exit_code == 0, done.stderr
    assert "traffic is valid (2 jobs, 4 streams, 1 site" in done.stdout
    assert (project / "pipeline.yaml").read_text().startswith("# yaml-language-server: $schema=")
    assert "$defs" in json.loads((project / "pipeline.schema.json").read_text())
    readme = (project / "README.md").read_text()
    for command in ("millrace run", "millrace send", "millrace tail", "$ pytest"):
        assert command in readme


@pytest.mark.timeout(400)
def test_its_own_tests_pass(project: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    done = subprocess.run(
        command,
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=390,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.parametrize("name", ["1st", "a.b-c", "true", "null"])
def test_any_allowed_name_is_the_name_of_the_pipeline(tmp_path: Path, name: str) -> None:
    assert new(name, "--dir", str(tmp_path)).exit_code == 0
    assert load(tmp_path / name / "pipeline.yaml").required().name == name


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "traffic").mkdir()
    assert new("traffic", "--dir", str(tmp_path)).exit_code == 0


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "traffic").mkdir()
    (tmp_path / "traffic" / "mine").touch()
    (tmp_path / "file").touch()
    for name in ("traffic", "file"):
        done = new(name, "--dir", str(tmp_path))
        assert done.exit_code == 1
        assert f"{tmp_path / name} is there already" in said(done)
    assert [path.name for path in (tmp_path / "traffic").iterdir()] == ["mine"]


@pytest.mark.parametrize("name", ["", "../up", "a/b", "-x y", "ü"])
def test_a_name_that_can_not_be_is_said(tmp_path: Path, name: str) -> None:
    done = new("--dir", str(tmp_path), "--", name)
    assert done.exit_code == 1
    assert "can't be the name of a pipeline" in said(done)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_can_not_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = new("traffic", "--dir", str(tmp_path / "file"))
    assert done.exit_code == 1
    assert "can't be made" in said(done)
