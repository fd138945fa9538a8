"""What is kept of a job in its folder, wherever that is moved."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millrace.engines.flink.kept import (
    Kept,
    located,
    named,
    newest,
    read_kept,
    target,
    tidy,
    write_kept,
)
from millrace.errors import OperationFailed


def snapshot(place: Path, name: str, at: int) -> str:
    folder = place / name
    folder.mkdir(parents=True)
    (folder / "_metadata").touch()
    os.utime(folder / "_metadata", (at, at))
    return name


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    assert read_kept(tmp_path / "new") == Kept()
    write_kept(tmp_path / "new", Kept("id", taken=True, digest="d", begin="savepoints/id/s"))
    assert read_kept(tmp_path / "new") == Kept(
        "id", taken=True, digest="d", begin="savepoints/id/s"
    )


def test_a_damaged_file_does_not_begin_the_job_anew(tmp_path: Path) -> None:
    (tmp_path / "flink.json").write_text("{")
    with pytest.raises(OperationFailed, match="begin anew"):
        read_kept(tmp_path)


def test_a_snapshot_inside_moves_with_its_folder(tmp_path: Path) -> None:
    old, new = tmp_path / "a place", tmp_path / "new"
    name = snapshot(old, "savepoints/id/savepoint-1", 1)
    for form in ("file:", "file://"):
        assert named(old, f"{form}{old}/{name}") == name
    assert named(old, f"{target(old, 'savepoints', 'id')}/savepoint-1") == name
    assert named(old, f"file:{old}/{name}".replace(" ", "%20")) == name
    old.rename(new)
    assert located(new, name) == f"file://{new}/{name}"


@pytest.mark.parametrize("location", ["s3://bucket/savepoint-1", "file:/elsewhere/savepoint-1"])
def test_a_snapshot_elsewhere_is_named_whole(tmp_path: Path, location: str) -> None:
    assert named(tmp_path, location) == location
    assert located(tmp_path, location) == location


def test_a_savepoint_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert located(tmp_path, "") == ""
    with pytest.raises(OperationFailed) as caught:
        located(tmp_path, "savepoints/id/savepoint-1")
    assert caught.value.code == "no-savepoint"


def test_the_newest_complete_snapshot_of_a_run(tmp_path: Path) -> None:
    assert newest(tmp_path, "id") == ""
    assert newest(tmp_path, "") == ""
    snapshot(tmp_path, "savepoints/other/savepoint-9", 9)
    snapshot(tmp_path, "checkpoints/id/chk-1", 3)
    (tmp_path / "checkpoints/id/chk-2").mkdir()  # it was not completed
    assert newest(tmp_path, "id") == "checkpoints/id/chk-1"
    snapshot(tmp_path, "savepoints/id/savepoint-1", 4)
    assert newest(tmp_path, "id") == "savepoints/id/savepoint-1"


def test_tidy_keeps_what_is_needed(tmp_path: Path) -> None:
    kept = snapshot(tmp_path, "checkpoints/a/chk-2", 2)
    (tmp_path / "checkpoints/a/shared").mkdir()
    writing = tmp_path / "checkpoints/now/chk-1"
    writing.mkdir(parents=True)
    olds = ("checkpoints/a/chk-1", "savepoints/b/savepoint-1")
    gone = [tmp_path / snapshot(tmp_path, name, 1) for name in olds]
    tidy(tmp_path, kept, "now")
    assert (tmp_path / kept / "_metadata").is_file()
    assert (tmp_path / "checkpoints/a/shared").is_dir()
    assert writing.is_dir()
    assert not any(path.exists() for path in gone)


@pytest.mark.parametrize("begin", ["", "s3://elsewhere/savepoint-1"])
def test_tidy_keeps_nothing_for_what_is_elsewhere(tmp_path: Path, begin: str) -> None:
    old = tmp_path / snapshot(tmp_path, "checkpoints/a/chk-2", 2)
    tidy(tmp_path, begin)
    assert not old.exists()
