"""Rules of the house that a machine can keep."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import millrace

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_import_does_no_work() -> None:
    """Importing the package loads nothing but itself."""
    code = (
        "import sys; before = set(sys.modules); import millrace; print(set(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "{'millrace'}"


def test_the_core_loads_without_heavy_parts() -> None:
    code = (
        "import sys; from millrace.spec import load; from millrace.plan import plan; "
        "print([m for m in ('cel', 'lark', 'pydantic', 'rich', 'typer') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_every_plugin_has_its_extra() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    assert {
        "spark",
        "kafka",
        "mqtt",
        "zmq",
        "slurm",
        "ssh",
        "flink",
        "dask",
        "server",
        "dev",
    } <= extras.keys()


@pytest.mark.parametrize("name", ["core", "dev"])
def test_pins_have_hashes_and_no_address(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text
    for requirement in re.split(r"\n(?=[A-Za-z])", text.strip()):
        assert "==" in requirement
        assert "--hash=sha256:" in requirement


def test_the_version_stands_in_one_place_each() -> None:
    assert millrace.__version__ == PYPROJECT["project"]["version"]


def test_words_of_the_model_are_in_the_glossary() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    words = set(re.findall(r"^\| ([a-z /,]+) \|", glossary, re.MULTILINE))
    known = {part.strip() for word in words for part in re.split(r"[/,]", word)}
    for word in (
        "pipeline",
        "site",
        "pilot",
        "broker",
        "engine",
        "stream",
        "job",
        "variant",
        "plan",
        "step",
        "impact",
        "generator",
        "group",
        "profile",
        "agent",
        "coordinator",
        "ledger",
    ):
        assert word in known, word


def test_every_package_has_its_paragraph_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    packages = [path.name for path in (ROOT / "src" / "millrace").iterdir() if path.is_dir()]
    for package in packages:
        if not package.startswith("__"):
            assert f"`{package}`" in text, package
