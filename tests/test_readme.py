"""The README shows what really happens: its commands are run and their output compared."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SESSIONS = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
FILES = re.findall(r"```yaml\n# (\S+)\n(.*?)```", README, re.DOTALL)


def commands() -> list[tuple[str, str]]:
    """Return each `$ millrace ...` of the README with the output shown below it."""
    found = []
    for session in SESSIONS:
        for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            if command.startswith(".venv/bin/millrace"):
                found.append((command, output))
    return found


def test_there_are_commands_and_a_file() -> None:
    assert len(commands()) >= 3
    assert FILES


@pytest.mark.parametrize(("command", "output"), commands(), ids=[c for c, _ in commands()])
def test_a_command_prints_what_the_readme_shows(command: str, output: str, tmp_path: Path) -> None:
    for name in ("examples", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "millrace.toml").touch()
    for name, text in FILES:
        (tmp_path / name).write_text(f"# {name}\n{text}")
    done = subprocess.run(
        [sys.executable, "-m", "millrace.cli", *shlex.split(command)[1:]],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
        env={**os.environ, "NO_COLOR": "1", "MILLRACE_HOME": str(tmp_path / "home")},
    )
    shown = (done.stdout + done.stderr).rstrip()
    if "..." in output:  # a cut output: what is shown must be its beginning and its end
        start, end = (part.strip("\n") for part in output.split("...\n", 1))
        assert shown.startswith(start)
        assert shown.endswith(end.rstrip())
    else:
        assert shown == output.rstrip()


def test_pictures_of_the_readme_are_there() -> None:
    for name in re.findall(r"\]\((docs/[^)]+)\)", README):
        assert (ROOT / name).exists(), name
