"""Archives of code and the artifacts that hold them: also those of somebody who means harm."""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import OperationFailed
from millrace.stores.archive import Limits, pack, unpack
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


def bad(entries: Mapping[str, bytes | tuple[bytes, int]]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            data, mode = content if isinstance(content, tuple) else (content, 0)
            about = zipfile.ZipInfo(name)
            about.compress_type = zipfile.ZIP_DEFLATED
            about.external_attr = mode << 16
            archive.writestr(about, data)
    return target.getvalue()


SMALL = Limits(entries=100, bytes=4 << 20)
LINK = stat.S_IFLNK | 0o777
ATTACKS = {
    "up": bad({"a/../../x": b"x"}),
    "absolute": bad({"/tmp/x": b"x"}),
    "drive": bad({"a\\..\\x": b"x"}),
    "link": bad({"out": (b"/tmp", LINK), "out/x": b"x"}),
    "device": bad({"dev": (b"", stat.S_IFCHR | 0o666)}),
    "bomb": bad({"bomb": b"\0" * (64 << 20)}),
    "ratio": bad({"bomb": b"\0" * (3 << 20)}),
    "many": bad({f"f{n}": b"" for n in range(101)}),
    "deep": bad({"/".join("d" * 40): b"x"}),
    "case": bad({"Code.py": b"1", "code.py": b"2"}),
    "no archive": b"PK\x03\x04 not really",
    "empty": b"",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_bad_archive_writes_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "bad.zip").write_bytes(ATTACKS[name])
    with pytest.raises(OperationFailed) as caught:
        unpack(tmp_path / "bad.zip", tmp_path / "out" / "code", SMALL)
    assert caught.value.code == "bad-archive"
    assert [path.name for path in tmp_path.iterdir()] == ["bad.zip"]


def test_what_lies_about_its_size_is_stopped(tmp_path: Path) -> None:
    """The table says one byte, and more comes."""
    content = bytearray(bad({"liar": b"x" * 100_000}))
    for place in _sizes(content, 100_000):
        content[place : place + 4] = (1).to_bytes(4, "little")
    (tmp_path / "bad.zip").write_bytes(bytes(content))
    with pytest.raises(OperationFailed):
        unpack(tmp_path / "bad.zip", tmp_path / "out", SMALL)
    assert sum(p.stat().st_size for p in (tmp_path / "out").rglob("*") if p.is_file()) < 100_000


def _sizes(content: bytearray, size: int) -> list[int]:
    wanted, found, at = size.to_bytes(4, "little"), [], -1
    while (at := content.find(wanted, at + 1)) >= 0:
        found.append(at)
    return found


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
