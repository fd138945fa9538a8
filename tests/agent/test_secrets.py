"""Secrets are read where they are needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.errors import OperationFailed
from millrace.machine.secrets import resolved
from millrace.model.types import Options, Secret


def test_options_become_texts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOME_SECRET", "from the environment\n")
    (tmp_path / "secret").write_text("from a file\n")
    options: Options = {
        "text": "a",
        "number": 5,
        "truth": True,
        "env": Secret(secret="env:SOME_SECRET"),  # noqa: S106 - a reference
        "file": Secret(secret=f"file:{tmp_path / 'secret'}"),
    }
    assert resolved(options, "here") == {
        "text": "a",
        "number": "5",
        "truth": "true",
        "env": "from the environment",
        "file": "from a file",
    }
    assert resolved(None, "here") == {}


@pytest.mark.parametrize(
    ("reference", "said", "hint"),
    [
        ("env:NOT_SET_AT_ALL", "NOT_SET_AT_ALL is not set", "export NOT_SET_AT_ALL"),
        ("file:/nowhere/secret", "No such file", "0600"),
        ("kafka-password", "no reference to a secret", "env:NAME"),
    ],
)
def test_a_secret_that_is_not_there_is_told(reference: str, said: str, hint: str) -> None:
    with pytest.raises(OperationFailed) as caught:
        resolved({"sasl.password": Secret(secret=reference)}, "sites.a.broker.options")
    assert caught.value.code == "no-secret"
    assert "sites.a.broker.options.sasl.password" in caught.value.message
    assert said in caught.value.message
    assert hint in caught.value.hint


def test_a_file_that_is_no_text_is_told_without_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\xff\xfehidden")
    with pytest.raises(OperationFailed) as caught:
        resolved({"sasl.password": Secret(secret=f"file:{tmp_path / 'secret'}")}, "here")
    assert caught.value.code == "no-secret"
    assert "hidden" not in str(caught.value)
