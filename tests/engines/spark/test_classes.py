"""The archive of classes with which a driver starts in half the time."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from millrace.engines.spark import classes
from millrace.engines.spark.classes import archive_options, write_archive
from millrace.machine import Folders, Java
from tests.engines.spark.lab import Lab


def test_a_driver_maps_the_archive(lab: Lab, java: Java, folders: Folders) -> None:
    (option,) = archive_options(java, folders.cache)
    archive = option.partition("=")[2]
    of_driver = psutil.Process(lab.engine.pid).children(recursive=True)
    (machine,) = [process for process in of_driver if process.name() == "java"]
    assert archive in Path(f"/proc/{machine.pid}/maps").read_text()


def test_there_is_none_before_it_was_written(java: Java, tmp_path: Path) -> None:
    assert archive_options(java, tmp_path) == ()


def test_what_can_not_be_written_is_tried_once(tmp_path: Path) -> None:
    said: list[str] = []
    broken = Java(tmp_path / "no-java", 17)
    for _ in range(2):
        write_archive(broken, tmp_path, said.append)
        assert archive_options(broken, tmp_path) == ()
    assert len(said) == 1
    assert sorted(path.suffix for path in (tmp_path / "classes").iterdir()) == ["", "", ".jsa"]


def test_another_java_has_another_archive(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_archive(Java(tmp_path / name, 17), tmp_path, print)
    assert len(list((tmp_path / "classes").glob("*.jsa"))) == 2


def test_only_the_last_are_kept(tmp_path: Path) -> None:
    for number in range(classes.KEPT + 2):
        archive = tmp_path / f"{number}.jsa"
        archive.write_text("classes")
        os.utime(archive, (number, number))
    classes._remove_old(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2.jsa", "3.jsa", "4.jsa"]
