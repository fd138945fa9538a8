"""What looks for secrets finds them wherever they are kept."""

from __future__ import annotations

import base64
import gzip
import io
import sys
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from millrace.machine import Child
from millrace.ports.store import Change, Entry, EntryKind
from millrace.stores.sqlite import SqliteStore
from tests.api.house import until
from tests.api.secret_traces import Looked, holds, marked, open_to_others

SECRET, TOLD = marked("traces"), "toldtoall"


def zipped(data: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/b.py", data)
    return target.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        f"x {SECRET} y".encode(),
        f"x {SECRET} y".encode("utf-16-le"),
        SECRET.encode().hex().encode(),
        *(base64.b64encode(b"u" * before + b":" + SECRET.encode() + b"!") for before in range(4)),
        gzip.compress(zipped(SECRET.encode() * 9)),
        zipped(gzip.compress(f'{{"a": "{SECRET}"}}'.encode())),
    ],
)
def test_a_text_is_found_however_it_is_written(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(b"\0before" + data if data[:1] == b"x" else data)
    looked = Looked((SECRET, TOLD))
    looked.folder(tmp_path)
    assert looked.where(SECRET) == {f"{tmp_path.name}/deep/file"}
    with pytest.raises(AssertionError, match=SECRET):
        looked.check(SECRET, told=SECRET, in_=["deep/file"])
    with pytest.raises(AssertionError, match="is not in"):
        looked.check(told=TOLD, in_=["deep/file"])


def test_a_state_tells_what_it_holds(tmp_path: Path) -> None:
    """By its rows, and by its pages, where what is long is cut."""
    file = tmp_path / "state.db"
    long = {"filling": [str(number) for number in range(9000)], "last": SECRET}
    entry = Entry(EntryKind.EVENT, "x", {"why": f"said {TOLD}"})
    with closing(SqliteStore(file)) as store:
        store.commit(Change({("thing", "long"): long}, entries=(entry,)))
    looked = Looked((SECRET, TOLD))
    looked.folder(tmp_path)
    pages = f"{tmp_path.name}/state.db"
    assert f"{pages} as rows" in looked.where(SECRET)
    assert {pages, f"{pages} as rows"} <= looked.where(TOLD)
    assert not holds(file.read_bytes(), [TOLD]), "it is packed: to look at bytes is not enough"


def test_command_lines_of_all_descendants_are_seen(tmp_path: Path) -> None:
    inner = f"import time; time.sleep(600)  # {SECRET}"
    outer = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.stdin.read()])"
    (tmp_path / "in").write_text(inner)
    command = f'exec {sys.executable} -c "{outer}" < {tmp_path / "in"}'
    child = Child.start(["sh", "-c", command], tmp_path / "log")
    try:

        def seen() -> bool:
            looked = Looked((SECRET,))
            looked.commands(child.pid)
            return looked.where(SECRET) == {"command lines"}

        until(seen, 20)
    finally:
        child.end(0)


def test_files_that_others_may_read_are_told(tmp_path: Path) -> None:
    for name, mode in (("private", 0o600), ("open", 0o640)):
        (tmp_path / name).write_text(f"password={SECRET}")
        (tmp_path / name).chmod(mode)
    assert open_to_others(tmp_path, [SECRET]) == [tmp_path / "open"]
