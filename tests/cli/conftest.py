"""What tests of commands share."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.cli import main
from tests.api.house import House
from tests.cli.commands import Done, Run
from tests.client.running import coordinator


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs `millrace` as its script does, in this process."""
    monkeypatch.chdir(tmp_path)
    for name, value in (("NO_COLOR", "1"), ("COLUMNS", "100"), ("TERMINAL_WIDTH", "100")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "home"))
    for name in ("MILLRACE_SERVER", "MILLRACE_TOKEN_FILE", "MILLRACE_CERTIFICATE"):
        monkeypatch.delenv(name, raising=False)

    def run_millrace(*arguments: str, stdin: str = "") -> Done:
        monkeypatch.setattr(sys, "argv", ["millrace", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as ended:
            main.run()
        captured = capsys.readouterr()
        code = ended.value.code
        return Done(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run_millrace


@pytest.fixture
def house(run: Run, tmp_path: Path) -> Iterator[House]:
    """Serve a coordinator of fakes as that of the home that commands look at."""
    with coordinator(tmp_path / "home") as served:
        yield served
