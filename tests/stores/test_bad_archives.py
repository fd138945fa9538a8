"""Archives of somebody who means harm, in full size and against the limits that really hold."""

from __future__ import annotations

import io
import stat
import struct
import tarfile
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from millrace.errors import OperationFailed
from millrace.stores.archive import Limits, look, unpack

GIB = 1 << 30
DEFLATED = zipfile.ZIP_DEFLATED


@dataclass(frozen=True, slots=True)
class Row:
    """A row of an archive's table: what it says, which need not be what is there."""

    name: str
    packed: int = 0
    size: int = 0
    checksum: int = 0
    mode: int = stat.S_IFREG | 0o600
    offset: int = 0

    def header(self) -> bytes:
        """Return what stands before the file's own bytes."""
        name, sizes = self.name.encode(), _sizes(self)
        front = (20, 0x800, DEFLATED, 0, 33, self.checksum, *sizes[:2], len(name), len(sizes[2]))
        return struct.pack("<4s5H3L2H", b"PK\3\4", *front) + name + sizes[2]

    def row(self) -> bytes:
        """Return what stands in the table."""
        name, sizes = self.name.encode(), _sizes(self)
        front = (0x31E, 20, 0x800, DEFLATED, 0, 33, self.checksum, *sizes[:2])
        back = (len(name), len(sizes[2]), 0, 0, 0, self.mode << 16, self.offset)
        return struct.pack("<4s6H3L5H2L", b"PK\1\2", *front, *back) + name + sizes[2]


def _sizes(row: Row) -> tuple[int, int, bytes]:
    """The sizes, in a field of their own where they need more than four bytes."""
    if row.size < 1 << 32:
        return row.packed, row.size, b""
    return 0xFFFFFFFF, 0xFFFFFFFF, struct.pack("<2H2Q", 1, 16, row.size, row.packed)


def ended(before: bytes, table: bytes, count: int) -> bytes:
    """Return an archive of files and their table, whose end tells a number of entries."""
    end = struct.pack(
        "<4s4H2LH", b"PK\5\6", 0, 0, *[min(count, 0xFFFF)] * 2, len(table), len(before), 0
    )
    if count <= 0xFFFF:
        return before + table + end
    large = struct.pack(
        "<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(table), len(before)
    )
    there = struct.pack("<4sLQL", b"PK\6\7", 0, len(before) + len(table), 1)
    return before + table + large + there + end


def one(row: Row, content: bytes, rows: Iterable[Row] | None = None) -> bytes:
    """Return an archive of one content, with one row or more that name it."""
    found = list(rows or [row])
    return ended(row.header() + content, b"".join(r.row() for r in found), len(found))


def zeros(size: int) -> bytes:
    """Return so many zeros, deflated as far as that goes: one piece of them, again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(bytes(16 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return piece * (size // (16 << 20)) + packer.flush(zlib.Z_FINISH)


def zipped(entries: Mapping[str, bytes | tuple[bytes, int]], method: int = DEFLATED) -> bytes:
    """Return an archive as any program makes it, of contents and the modes of some."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in entries.items():
            data, mode = content if isinstance(content, tuple) else (content, 0)
            about = zipfile.ZipInfo(name)
            about.compress_type = method
            about.external_attr = mode << 16
            archive.writestr(about, data)
    return target.getvalue()


def tarred(place: Path) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        link = tarfile.TarInfo("out")
        link.type, link.linkname = tarfile.SYMTYPE, str(place)
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo("out/x"))
    return target.getvalue()


def overlapping(_place: Path) -> bytes:
    """One mebibyte on the disk that is ten gibibytes: ten files share their bytes."""
    content = zeros(GIB)
    row = Row("bomb-0", len(content), GIB)
    return one(row, content, [replace(row, name=f"bomb-{n}") for n in range(10)])


def single(_place: Path) -> bytes:
    content = zeros(10 * GIB)
    return one(Row("bomb", len(content), 10 * GIB), content)


def shared(_place: Path) -> bytes:
    """Files that share their bytes, and stay within all limits by what they say."""
    content = zeros(64 << 20)
    row = Row("bomb-0", len(content), 100 * len(content))
    return one(row, content, [replace(row, name=f"bomb-{n}") for n in range(50)])


LINK = stat.S_IFLNK | 0o777
ATTACKS: dict[str, Callable[[Path], bytes]] = {
    "up": lambda _: zipped({"../x": b"x"}),
    "up later": lambda _: zipped({"a.py": b"", "b/../../x": b"x"}),
    "absolute": lambda place: zipped({f"{place}/x": b"x"}),
    "backwards": lambda _: zipped({"..\\x": b"x"}),
    "link, then a file in it": lambda place: zipped({"out": (bytes(place), LINK), "out/x": b"x"}),
    "link, then the same name": lambda place: zipped(
        {"out": (bytes(place / "x"), LINK), "OUT": b"x"}
    ),
    "link alone": lambda place: zipped({"out": (bytes(place), LINK)}),
    "device of letters": lambda _: zipped({"null": (b"", stat.S_IFCHR | 0o666)}),
    "device of blocks": lambda _: zipped({"disk": (b"", stat.S_IFBLK | 0o666)}),
    "pipe": lambda _: zipped({"pipe": (b"", stat.S_IFIFO | 0o666)}),
    "socket": lambda _: zipped({"socket": (b"", stat.S_IFSOCK | 0o666)}),
    "1 MB of 10 GB": overlapping,
    "10 MB of 10 GB": single,
    "shared bytes": shared,
    "ratio": lambda _: zipped({"bomb": bytes(8 << 20)}),
    "other method": lambda _: zipped({"code.py": b"x" * 5000}, zipfile.ZIP_LZMA),
    "case": lambda _: zipped({"Code.py": b"1", "code.py": b"2"}),
    "case of a folder": lambda _: zipped({"Jobs/a.py": b"1", "jobs/A.py": b"2"}),
    "letters that fold": lambda _: zipped({"straße": b"1", "STRASSE": b"2"}),
    "file and folder": lambda _: zipped({"a": b"1", "A/b": b"2"}),
    "deep": lambda _: zipped({"/".join("d" * 40): b"x"}),
    "10,001 files": lambda _: zipped({f"f{n}": b"" for n in range(10_001)}),
    "tar": tarred,
    "no archive": lambda _: b"PK\x03\x04 not really",
    "empty": lambda _: b"",
}


def everything(place: Path) -> dict[str, tuple[int, int]]:
    """Return what lies below a folder: links and special files as they are."""
    return {
        path.relative_to(place).as_posix(): (path.lstat().st_mode, path.lstat().st_mtime_ns)
        for path in place.rglob("*")
        if not path.is_dir() or path.is_symlink()
    }


def refused(use: Callable[[], None]) -> str:
    with pytest.raises(OperationFailed) as caught:
        use()
    assert caught.value.code == "bad-archive"
    assert caught.value.hint
    return caught.value.message


@pytest.mark.parametrize("name", ATTACKS)
def test_a_bad_archive_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    archive = tmp_path / "bad.zip"
    archive.write_bytes(ATTACKS[name](elsewhere))
    before = everything(tmp_path)
    refused(lambda: look(archive))
    refused(lambda: unpack(archive, tmp_path / "in" / "code"))
    assert everything(tmp_path) == before
    assert not (tmp_path / "in").exists()  # so not even the folder was begun
    archive.unlink()


def test_the_bombs_are_what_they_say(tmp_path: Path) -> None:
    """So that they are not refused for something else: 1 MB that holds 10 GB, and 10 MB."""
    small, large = overlapping(tmp_path), single(tmp_path)
    assert len(small) < 1.1 * (1 << 20)
    assert len(large) < 11 << 20
    for content in (small, large):
        with zipfile.ZipFile(io.BytesIO(content)) as opened:
            assert sum(entry.file_size for entry in opened.infolist()) == 10 * GIB
            first = opened.infolist()[0]
            with opened.open(first) as source:
                assert source.read(1 << 20) == bytes(1 << 20)
    found = zlib.decompressobj(-15)
    assert len(found.decompress(zeros(64 << 20))) == 64 << 20
    assert found.eof


def many(count: int, told: int) -> bytes:
    """Return an archive of empty files whose end tells some number of them."""
    header, row = Row("0000000").header(), Row("0000000").row()
    start, end, wide = header[:-7], row[:42], len(header)
    before = b"".join([b"%b%07d" % (start, n) for n in range(count)])
    table = b"".join(
        [b"%b%b%07d" % (end, (wide * n).to_bytes(4, "little"), n) for n in range(count)]
    )
    return ended(before, table, told)


@pytest.mark.parametrize(
    ("count", "told"), [(1_000_000, 1_000_000), (1_000_000, 1), (190_000, 1), (10_001, 10_000)]
)
def test_a_table_of_too_many_is_not_made(tmp_path: Path, count: int, told: int) -> None:
    archive = tmp_path / "many.zip"
    archive.write_bytes(many(count, told))
    tracemalloc.start()
    began = time.process_time()
    try:
        for use in (lambda: look(archive), lambda: unpack(archive, tmp_path / "out")):
            refused(use)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 1
    assert peak < 64 << 20
    assert [path.name for path in tmp_path.iterdir()] == ["many.zip"]
    archive.unlink()


def test_as_many_as_allowed_are_taken(tmp_path: Path) -> None:
    archive = tmp_path / "many.zip"
    archive.write_bytes(many(10_000, 10_000))
    look(archive)
    archive.write_bytes(many(100, 100))
    unpack(archive, tmp_path / "out")
    assert len(list((tmp_path / "out").iterdir())) == 100


def written() -> int:
    """Return how many bytes this process wrote so far, to whatever file."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


@pytest.mark.parametrize("said", [1, 100_000, 200_000_000])
def test_what_lies_about_its_size_is_stopped_and_leaves_nothing(tmp_path: Path, said: int) -> None:
    """The table says little, or as much as is allowed, and a gibibyte would come."""
    content = zeros(GIB)
    archive = tmp_path / "bad.zip"
    archive.write_bytes(one(Row("liar", len(content), said), content))
    look(archive)  # the table is fine
    before = written()
    refused(lambda: unpack(archive, tmp_path / "out"))
    assert said <= written() - before + (1 << 16) <= Limits().bytes
    assert [path.name for path in tmp_path.iterdir()] == ["bad.zip"]


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    archive = tmp_path / "good.zip"
    archive.write_bytes(zipped({"a.py": b"1"}))
    refused(lambda: unpack(archive, tmp_path / "out"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]
