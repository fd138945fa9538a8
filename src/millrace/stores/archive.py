"""Folders of code as archives, and back: nothing of an archive may leave its folder.

Only zip is read: its table says what comes before anything is unpacked, and entries are checked
against limits both by what they announce and by what they hold.
"""

from __future__ import annotations

import io
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from millrace.errors import OperationFailed

#: Never part of a user's code.
_LEFT_OUT = frozenset({"__pycache__", ".git", ".venv", "venv", "node_modules", ".mypy_cache"})
#: Archives of the same files are the same, whenever they are made.
_WHEN = (1980, 1, 1, 0, 0, 0)
_PIECE = 1 << 16
#: How an entry of a table begins, and how long one may be if all are: names are the most of it.
_ENTRY = b"PK\x01\x02"
_TABLE = 1 << 10
#: The part of an archive in which the end of its table is looked for, and some more.
_END = 1 << 17
#: What reading a zip may raise that was cut, changed or made up.
UNREADABLE = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    EOFError,
    ValueError,
    OverflowError,
    struct.error,
    zlib.error,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What an archive may hold."""

    entries: int = 10_000
    bytes: int = 512 << 20
    depth: int = 32
    #: How many times smaller an entry may be inside; text rarely gets beyond 20.
    ratio: int = 200


def pack(folder: Path) -> bytes:
    """Return the files of a folder as an archive, but for links and what begins with a dot."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for path in files(folder):
            about = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _WHEN)
            about.compress_type = zipfile.ZIP_DEFLATED
            about.external_attr = (stat.S_IFREG | 0o600) << 16
            archive.writestr(about, path.read_bytes())
    return target.getvalue()


def files(folder: Path) -> list[Path]:
    """Return the files of a folder that are packed, sorted."""
    return sorted(_files(folder))


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_symlink() or path.name in _LEFT_OUT or path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path


def unpack(archive: Path, folder: Path, limits: Limits | None = None) -> None:
    """Write the files of an archive into a new folder.

    Raises before the first for one that its table shows to be bad, and with nothing left in the
    folder's place for one that turns out to be: it never takes more room than the limits say.
    """
    limits = limits or Limits()
    with _opened(archive, limits) as (opened, entries):
        folder.mkdir(parents=True, mode=0o700)
        try:
            left = limits.bytes
            for entry in entries:
                left -= _written(opened, entry, folder / entry.filename, left)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def look(archive: Path, limits: Limits | None = None) -> None:
    """Raise for an archive that `unpack` would refuse by its table; nothing is written."""
    with _opened(archive, limits or Limits()):
        pass


@contextmanager
def _opened(
    archive: Path, limits: Limits
) -> Iterator[tuple[zipfile.ZipFile, list[zipfile.ZipInfo]]]:
    """An archive and its files, all of which may be unpacked by what the table says."""
    try:
        with _Guarded(archive, limits) as file, zipfile.ZipFile(file) as opened:
            file.guards = False
            entries = [entry for entry in opened.infolist() if not entry.is_dir()]
            checked(entries, limits)
            # Entries that share their bytes could fill a disk from a small file.
            if sum(entry.compress_size for entry in entries) > archive.stat().st_size:
                raise _refused("it says that it holds more than it has")
            yield opened, entries
    except (*UNREADABLE, OSError) as error:
        raise _refused(f"it can't be read: {error}") from error


class _Guarded(io.BufferedReader):
    """A file of which a table with too many entries is not read.

    Making a million entries of a table would take seconds and a gigabyte; its bytes are counted
    before, as the number that an archive tells need not be true.
    """

    def __init__(self, archive: Path, limits: Limits) -> None:
        super().__init__(io.FileIO(archive))
        self.guards = True
        self._limits = limits

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as any file does; raises for too large a table."""
        if not self.guards:
            return super().read(size)
        most = max(self._limits.entries * _TABLE, _END)
        if size is not None and size > most:
            raise _refused(f"its table has {size:,} bytes, and {most:,} are allowed")
        data = super().read(most if size is None or size < 0 else size)
        if data.count(_ENTRY) > self._limits.entries:
            raise _refused(f"it has more than {self._limits.entries} files")
        return data


def _refused(why: str) -> OperationFailed:
    return OperationFailed(
        "bad-archive", f"the archive was refused: {why}", "pack the folder of the jobs' code anew"
    )


def checked(
    entries: Sequence[zipfile.ZipInfo],
    limits: Limits,
    refused: Callable[[str], OperationFailed] = _refused,
) -> None:
    """Raise what `refused` makes of the reason if a table has an entry that must not be unpacked.

    Folders may be among the entries, and count.
    """
    if len(entries) > limits.entries:
        raise refused(f"it has {len(entries)} files, and {limits.entries} are allowed")
    if sum(entry.file_size for entry in entries) > limits.bytes:
        raise refused(f"it would be larger than {limits.bytes >> 20} MiB")
    folders: dict[str, bool] = {}
    for entry in entries:
        if why := _wrong(entry, limits):
            raise refused(why)
        plain = str(PurePosixPath(entry.filename.casefold()))
        if plain in folders:
            raise refused(f"{entry.filename!r} is there twice, as some disks see it")
        folders[plain] = entry.is_dir()
    for plain in folders:
        if any(folders.get(str(above)) is False for above in PurePosixPath(plain).parents):
            raise refused(f"{plain!r} lies in what is a file")


def _wrong(entry: zipfile.ZipInfo, limits: Limits) -> str:
    """What is wrong with an entry by itself; empty if nothing is."""
    name = entry.filename
    path = PurePosixPath(name)
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFDIR if entry.is_dir() else stat.S_IFREG):
        return f"{name!r} is a link or a device"
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or not path.parts:
        return f"{name!r} leads out of its folder"
    if len(path.parts) > limits.depth:
        return f"{name[:80]!r} lies more than {limits.depth} folders deep"
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"{name!r} is packed in a way that takes memory as it likes"
    if entry.file_size > limits.ratio * max(entry.compress_size, 1024):
        return f"{name!r} is {limits.ratio} times larger than what is packed"
    return ""


def _written(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path, most: int) -> int:
    """Write one file; what it holds counts, not what the table said."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    size = 0
    with opened.open(entry) as source, path.open("xb") as target:
        while piece := source.read(_PIECE):
            size += len(piece)
            if size > min(most, entry.file_size):
                raise _refused(f"{entry.filename!r} holds more than it said")
            target.write(piece)
    return size
