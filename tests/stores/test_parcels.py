"""Parcels of progress: whole or not at all, whatever ends the process or comes in them."""

from __future__ import annotations

import io
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.errors import OperationFailed
from millrace.stores import parcels
from millrace.stores.archive import Limits
from millrace.stores.parcels import make, open_into
from tests.memory import memory


def progress(folder: Path) -> Path:
    """Make a folder such as a query leaves behind."""
    state = folder / "checkpoint" / "state" / "0" / "1"
    state.mkdir(parents=True)
    (folder / "checkpoint" / "sources" / "empty").mkdir(parents=True)
    (folder / "ledger.json").write_text("{}")
    (state / "000012.sst").write_bytes(os.urandom(10) * 100_000)
    (state / ".1.delta.crc").write_bytes(b"crc")
    (state / "none").write_bytes(b"")
    (state / "wörter").write_text("ü")
    (state / "lease.json").write_text("somebody else's")
    for lease in parcels.LEFT_OUT:
        (folder / lease).write_text("mine")
    return folder


def content(folder: Path) -> dict[str, bytes | None]:
    """All that a folder holds; None for a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_comes_back_but_for_its_lease(tmp_path: Path) -> None:
    source = progress(tmp_path / "1")
    make(source, tmp_path / "parcel")
    open_into(tmp_path / "parcel", tmp_path / "jobs" / "2")
    expected = {
        name: data for name, data in content(source).items() if name not in parcels.LEFT_OUT
    }
    assert content(tmp_path / "jobs" / "2") == expected
    assert "checkpoint/state/0/1/.1.delta.crc" in expected
    assert "checkpoint/sources/empty" in expected
    assert names(tmp_path) == ["1", "jobs", "parcel"]
    assert names(tmp_path / "jobs") == ["2"]


def test_an_empty_folder_comes_back(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    make(tmp_path / "1", tmp_path / "parcel")
    open_into(tmp_path / "parcel", tmp_path / "2")
    assert content(tmp_path / "2") == {}


def test_the_same_files_are_the_same_bytes(tmp_path: Path) -> None:
    one = progress(tmp_path / "one")
    two = tmp_path / "two"
    two.mkdir()
    for path in sorted(one.rglob("*"), reverse=True):  # others first, with times of their own
        place = two / path.relative_to(one)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            place.mkdir(exist_ok=True)
        else:
            place.write_bytes(path.read_bytes())
            os.utime(place, (10**9, 10**9))
    for folder in (one, two):
        make(folder, folder.with_suffix(".zip"))
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as opened:
        assert {entry.compress_type for entry in opened.infolist()} == {zipfile.ZIP_STORED}


SPOILED: Mapping[str, Callable[[Path], object]] = {
    "link": lambda folder: (folder / "checkpoint" / "link").symlink_to("/etc/passwd"),
    "dead link": lambda folder: (folder / "link").symlink_to("nowhere"),
    "linked folder": lambda folder: (folder / "link").symlink_to(folder / "checkpoint"),
    "pipe": lambda folder: os.mkfifo(folder / "pipe"),
    "case": lambda folder: (folder / "LEDGER.json").write_text("{}"),
    "no text": lambda folder: (folder / os.fsdecode(b"\xff")).write_text(""),
}


@pytest.mark.parametrize("name", SPOILED)
def test_what_would_not_come_back_is_refused(tmp_path: Path, name: str) -> None:
    folder = progress(tmp_path / "1")
    SPOILED[name](folder)
    (tmp_path / "parcel").write_text("older")
    with pytest.raises(OperationFailed) as caught:
        make(folder, tmp_path / "parcel")
    assert caught.value.code == "no-parcel"
    assert names(tmp_path) == ["1", "parcel"]
    assert (tmp_path / "parcel").read_text() == "older"


def test_a_file_that_changes_meanwhile_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "copyfileobj", lambda _, target, __: target.write(b"another"))
    with pytest.raises(OperationFailed, match="changed while it was read"):
        make(progress(tmp_path / "1"), tmp_path / "parcel")
    assert names(tmp_path) == ["1"]


def test_a_missing_folder_and_a_folder_that_is_there_are_said(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed) as caught:
        make(tmp_path / "1", tmp_path / "parcel")
    assert caught.value.code == "parcel-failed"
    make(progress(tmp_path / "1"), tmp_path / "parcel")
    before = content(tmp_path)
    with pytest.raises(OperationFailed) as caught:
        open_into(tmp_path / "parcel", tmp_path / "1")
    assert caught.value.code == "folder-exists"
    with pytest.raises(OperationFailed) as caught:
        open_into(tmp_path / "none", tmp_path / "2")
    assert caught.value.code == "parcel-failed"
    assert content(tmp_path) == before


def bad(entries: Mapping[str, bytes | tuple[bytes, int]], kind: int = zipfile.ZIP_STORED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", kind) as archive:
        archive.writestr(zipfile.ZipInfo("good"), b"good")
        for name, entry in entries.items():
            data, mode = entry if isinstance(entry, tuple) else (entry, 0)
            about = zipfile.ZipInfo(name)
            about.compress_type = kind
            about.external_attr = mode << 16
            archive.writestr(about, data)
    return target.getvalue()


def _shared() -> bytes:
    """A parcel with 200 entries, all of them the same bytes."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("0", b"x" * 10_000)
        [first] = archive.infolist()
        for number in range(1, 200):
            copy = zipfile.ZipInfo(str(number))
            copy.CRC, copy.header_offset = first.CRC, first.header_offset
            copy.file_size = copy.compress_size = first.file_size
            archive.filelist.append(copy)
    return target.getvalue()


ATTACKS = {
    "up": bad({"a/../../x": b"x"}),
    "folder up": bad({"../x/": b""}),
    "absolute": bad({"/tmp/x": b"x"}),
    "drive": bad({"a\\..\\x": b"x"}),
    "itself": bad({"./": b""}),
    "link": bad({"out": (b"/tmp", stat.S_IFLNK | 0o777), "out/x": b"x"}),
    "folder link": bad({"out/": (b"", stat.S_IFLNK | 0o777)}),
    "device": bad({"dev": (b"", stat.S_IFCHR | 0o666)}),
    "many": bad({f"f{n}": b"" for n in range(100)}),
    "much": bad({"much": b"\0" * (5 << 20)}),
    "deep": bad({"/".join("d" * 40): b"x"}),
    "case": bad({"Code": b"1", "code": b"2"}),
    "twice": bad({"a/b": b"1", "a//b": b"2"}),
    "file and folder": bad({"a/b/c": b"2", "a": b"1"}),
    "compressed": bad({"x": b"\0" * 100}, zipfile.ZIP_DEFLATED),
    "shared": _shared(),
    "no parcel": b"PK\x03\x04 not really",
    "empty": b"",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_bad_parcel_is_refused_before_anything_is_written(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(entries=100 if name != "shared" else 1000, bytes=4 << 20, ratio=1)
    monkeypatch.setattr(parcels, "LIMITS", limits)
    monkeypatch.setattr(parcels, "_unpack", lambda *_: pytest.fail("it was unpacked"))
    (tmp_path / "bad").write_bytes(ATTACKS[name])
    with pytest.raises(OperationFailed) as caught:
        open_into(tmp_path / "bad", tmp_path / "jobs" / "2")
    assert caught.value.code == "bad-parcel"
    assert names(tmp_path) == ["bad"]


@settings(max_examples=200)
@given(place=st.integers(0, 10**6), flip=st.integers(1, 255), cut=st.booleans())
def test_a_damaged_parcel_is_found_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, place: int, flip: int, *, cut: bool
) -> None:
    """Either nothing is left, or all files are there with what was in them."""
    top = tmp_path_factory.mktemp("damaged")
    entries = {"a/b": b"content" * 20, "a/.c": b"", "d": b"more" * 30}
    data = bytearray(bad(entries))
    place %= len(data)
    data = data[:place] if cut else data
    if not cut:
        data[place] ^= flip
    (top / "parcel").write_bytes(data)
    try:
        open_into(top / "parcel", top / "2")
    except OperationFailed as failure:
        code, left = failure.code, ["parcel"]
    else:
        code, left = "opened", ["2", "parcel"]
    assert code in ("opened", "bad-parcel", "parcel-failed")
    assert names(top) == left
    assert set(content(top / "2").values()) <= {None, b"good", *entries.values()}
    shutil.rmtree(top)


HEAD = """
    import os
    from pathlib import Path
    from millrace.stores.parcels import make, open_into
"""


def start(code: str) -> subprocess.Popen[bytes]:
    """Run some code in a process of its own."""
    text = textwrap.dedent(HEAD) + textwrap.dedent(code)
    return subprocess.Popen([sys.executable, "-c", text])


def killed(at: int, call: str) -> bool:
    """Make a call in a process that is killed as it brings something to the disk, or is not."""
    code = start(f"""
        whole, left = os.fsync, {at}
        def fsync(descriptor):
            global left
            left -= 1
            if not left:
                os.kill(os.getpid(), 9)
            whole(descriptor)
        os.fsync = fsync
        {call}
    """).wait(60)
    assert code in (0, -signal.SIGKILL)
    return code != 0


def test_kill_at_any_moment_leaves_no_half_folder(tmp_path: Path) -> None:
    """What a killed one leaves, the next overcomes."""
    source = progress(tmp_path / "1")
    for lease in parcels.LEFT_OUT:
        (source / lease).unlink()
    parcel, folder = tmp_path / "parcel", tmp_path / "2"
    make(source, parcel)
    at, half, call = 1, 0, f"open_into(Path({str(parcel)!r}), Path({str(folder)!r}))"
    while killed(at, call):
        half += (tmp_path / "2.new").exists()
        if folder.exists():
            assert content(folder) == content(source)
            shutil.rmtree(folder)
        at += 1
    assert half == at - 2 > 10  # the last time it was renamed already
    assert content(folder) == content(source)
    assert names(tmp_path) == ["1", "2", "parcel"]


def test_kill_leaves_the_parcel_that_was_there(tmp_path: Path) -> None:
    source, parcel = progress(tmp_path / "1"), tmp_path / "parcel"
    parcel.write_text("older")
    call = f"make(Path({str(source)!r}), Path({str(parcel)!r}))"
    assert killed(1, call)
    assert parcel.read_text() == "older"
    assert not killed(99, call)
    assert names(tmp_path) == ["1", "parcel"]
    open_into(parcel, tmp_path / "2")


def test_200_mb_take_little_memory(tmp_path: Path) -> None:
    source, parcel, folder = tmp_path / "1", tmp_path / "parcel", tmp_path / "2"
    source.mkdir()
    for number in range(2):
        (source / f"{number}.sst").touch()
        os.truncate(source / f"{number}.sst", 100 << 20)
    child = start(f"""
        make(Path({str(source)!r}), Path({str(parcel)!r}))
        open_into(Path({str(parcel)!r}), Path({str(folder)!r}))
    """)
    found = []
    while child.poll() is None:
        found.append(memory(child.pid))
        time.sleep(0.005)
    assert child.returncode == 0
    assert sum(path.stat().st_size for path in folder.iterdir()) == 200 << 20
    assert len(found) > 10
    assert max(found) < 50 << 20
    for path in (parcel, *folder.iterdir()):
        path.unlink()
