"""Experiments come by name: ours, and those of packages that are installed beside."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from millrace.errors import OperationFailed
from millrace.experiment.registry import GROUP, Registry
from tests.experiment.toys import Toy


def test_ours_are_there() -> None:
    assert {"fog-cloud", "speck-figure-6"} <= set(Registry.installed().names())


def test_a_stranger_adds_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pip leaves a package: a module, and metadata with an entry point."""
    (tmp_path / "stranger.py").write_text(
        "from tests.experiment.toys import Toy\nEXPERIMENT = Toy()\n"
    )
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{GROUP}]\ntoy = stranger:EXPERIMENT\nfog-cloud = stranger:EXPERIMENT\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    try:
        registry = Registry.installed()
        assert registry.load("toy").declared.title == "Toys"
        assert registry.load("fog-cloud").declared.title != "Toys"  # ours stay ours
    finally:
        sys.modules.pop("stranger", None)


def test_an_unknown_name_has_a_near_one() -> None:
    with pytest.raises(OperationFailed) as failed:
        Registry({"fog-cloud": Toy}).load("fog-clod")
    assert failed.value.hint == "did you mean fog-cloud?"


def test_one_that_can_not_be_loaded_is_told() -> None:
    def broken() -> Toy:
        raise ModuleNotFoundError("No module named 'numbers2'")

    with pytest.raises(OperationFailed, match="can't be loaded: No module named 'numbers2'"):
        Registry({"toy": broken}).load("toy")


def test_a_file_declares_one_of_a_known_kind(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("experiment: mine\nof: toy\nmatrix: {size: [4]}\nmeasures: {time: {unit: s}}\n")
    experiment, declared = Registry({"toy": Toy}).found(str(file))
    assert isinstance(experiment, Toy)
    assert (declared.name, declared.matrix) == ("mine", {"size": (4,)})
