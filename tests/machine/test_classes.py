"""Archives of classes: written once, by one, and never in the way."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from millrace.errors import OperationFailed
from millrace.machine import ClassArchive, Java
from millrace.machine.classes import KEPT

JAVA = Java(Path("/nowhere"), 17)


def written(archive: ClassArchive) -> list[str]:
    """Write an archive as Java would; what was told."""
    told: list[str] = []

    def run(folder: Path, options: tuple[str, ...]) -> None:
        (option,) = options
        name, _, file = option.partition("=")
        assert name == "-XX:ArchiveClassesAtExit"
        assert Path(file).parent == folder
        Path(file).write_text("classes")

    archive.write(run, lambda: told.append("told"))
    return told


def test_it_is_written_once_and_leaves_nothing_else(tmp_path: Path) -> None:
    archive = ClassArchive.of(tmp_path / "classes", JAVA, tmp_path)
    assert not archive.options
    assert [written(archive), written(archive)] == [["told"], []]
    assert archive.options == (f"-XX:SharedArchiveFile={archive.place}",)
    assert {path.name for path in archive.place.parent.iterdir()} == {"lock", archive.place.name}


@pytest.mark.parametrize("error", [None, OSError(), OperationFailed("broken", "it is broken")])
def test_what_can_not_be_written_is_tried_once(tmp_path: Path, error: Exception | None) -> None:
    archive, tries = ClassArchive.of(tmp_path, JAVA, tmp_path), []

    def run(folder: Path, _: tuple[str, ...]) -> None:
        tries.append(folder)
        if error is not None:
            raise error

    for _ in range(2):
        archive.write(run, lambda: None)
        assert archive.options == ()
    assert len(tries) == 1
    assert not tries[0].exists()


def test_ctrl_c_leaves_it_to_the_next(tmp_path: Path) -> None:
    archive = ClassArchive.of(tmp_path, JAVA, tmp_path)

    def run(_: Path, __: tuple[str, ...]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        archive.write(run, lambda: None)
    assert written(archive) == ["told"]


def test_of_several_at_once_one_writes(tmp_path: Path) -> None:
    archive, told = ClassArchive.of(tmp_path, JAVA, tmp_path), []
    threads = [threading.Thread(target=lambda: told.extend(written(archive))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert told == ["told"]


def test_another_java_jars_or_setting_has_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    found = [
        ClassArchive.of(tmp_path, JAVA, jars, "SPARK_CONF_DIR"),
        ClassArchive.of(tmp_path, Java(Path("/elsewhere"), 17), jars, "SPARK_CONF_DIR"),
        ClassArchive.of(tmp_path, JAVA, tmp_path, "SPARK_CONF_DIR"),
    ]
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    found.append(ClassArchive.of(tmp_path, JAVA, jars, "SPARK_CONF_DIR"))
    os.utime(jars, (1, 1))
    found.append(ClassArchive.of(tmp_path, JAVA, jars, "SPARK_CONF_DIR"))
    assert len(set(found)) == len(found)


def test_only_the_last_are_kept(tmp_path: Path) -> None:
    archives = [
        ClassArchive.of(tmp_path, Java(Path(f"/{number}"), 17), tmp_path / "jars")
        for number in range(KEPT + 2)
    ]
    for number, archive in enumerate(archives):
        written(archive)
        os.utime(archive.place, (number, number))
    assert [bool(archive.options) for archive in archives] == [False] * 2 + [True] * KEPT
