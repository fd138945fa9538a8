"""Archives of code and the artifacts that hold them; `test_bad_archives` has those that harm."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import OperationFailed
from millrace.stores.archive import pack, unpack
from millrace.stores.artifacts import Artifacts


def code(folder: Path) -> Path:
    (folder / "jobs" / "deep").mkdir(parents=True)
    (folder / "jobs" / "__init__.py").write_text("")
    (folder / "jobs" / "deep" / "wörk.py").write_text("def work(record):\n    return record\n")
    (folder / "jobs" / "__pycache__").mkdir()
    (folder / "jobs" / "__pycache__" / "x.pyc").write_text("never")
    (folder / ".secret").write_text("never")
    (folder / "link").symlink_to("/etc/passwd")
    return folder


def test_a_folder_comes_back_and_the_same_files_are_the_same_archive(tmp_path: Path) -> None:
    packed = pack(code(tmp_path / "one"))
    assert packed == pack(code(tmp_path / "two"))
    (tmp_path / "a.zip").write_bytes(packed)
    unpack(tmp_path / "a.zip", tmp_path / "out")
    found = sorted(
        p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*")
    )
    assert found == ["jobs", "jobs/__init__.py", "jobs/deep", "jobs/deep/wörk.py"]


@given(st.lists(st.binary(max_size=50), max_size=6))
def test_an_artifact_is_kept_once_by_what_it_is(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    artifacts = Artifacts(tmp_path_factory.mktemp("artifacts") / "here")
    digest = artifacts.put(pieces)
    assert artifacts.put([b"".join(pieces)], expected=digest) == digest
    assert b"".join(artifacts.pieces(digest)) == b"".join(pieces)
    assert len(list(artifacts.folder.iterdir())) == 1
    assert artifacts.missing([digest, "0" * 64]) == ["0" * 64]


def test_what_is_not_what_was_announced_is_not_kept(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path, largest=100)
    for content, expected, why in (
        ([b"a"], "0" * 64, "other-content"),
        ([b"a" * 60] * 2, None, "too-large"),
    ):
        with pytest.raises(OperationFailed) as caught:
            artifacts.put(content, expected)
        assert caught.value.code == why
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "x" * 64, "A" * 64, "0" * 63 + "/"])
def test_only_a_digest_names_an_artifact(tmp_path: Path, name: str) -> None:
    for use in (Artifacts(tmp_path).path, lambda digest: Artifacts(tmp_path).missing([digest])):
        with pytest.raises(OperationFailed) as caught:
            use(name)
        assert caught.value.code == "no-artifact"
