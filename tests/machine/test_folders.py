"""Where things are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.machine import Folders


def test_variables_choose_the_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MILLRACE_CACHE", str(tmp_path / "cache"))
    assert Folders.of() == Folders(tmp_path / "home", tmp_path / "cache")
    assert Folders.of(tmp_path / "x") == Folders(tmp_path / "x", tmp_path / "cache")
    assert Folders.of().pipeline("p") == tmp_path / "home" / "pipelines" / "p"


def test_without_them_the_system_chooses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("MILLRACE_HOME", "MILLRACE_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert Folders.of() == Folders(tmp_path / "state" / "millrace", tmp_path / "cache" / "millrace")


def test_a_relative_home_becomes_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert Folders.of(Path("here")).state == tmp_path / "here"
