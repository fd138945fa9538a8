"""A folder of a query's progress as one file, and back: whole, or not at all.

A parcel is a zip that is only stored: what Spark and RocksDB keep is compressed already. Both ways
go piece by piece, so that the size of a folder is no matter of memory.
"""

from __future__ import annotations

import os
import shutil
import stat
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from millrace.errors import OperationFailed
from millrace.stores.archive import UNREADABLE, Limits, checked

#: At the top of a folder: they belong to who ran there, and not to the progress.
LEFT_OUT = frozenset({"lease.json", "lease.lock"})
#: What a parcel may hold; a ratio of one, as nothing is compressed.
LIMITS = Limits(entries=1_000_000, bytes=64 << 30, ratio=1)
#: Parcels of the same files are the same, whenever they are made.
_WHEN = (1980, 1, 1, 0, 0, 0)
_PIECE = 1 << 20


def make(folder: Path, target: Path) -> None:
    """Write all files and folders of a folder, but for LEFT_OUT, into one file.

    Same files make the same bytes. Nobody may write to the folder meanwhile. Raises, with the
    target as it was, for links, for what is neither file nor folder, and for what `open_into` would
    refuse. The target is written beside its place and moved there whole.
    """
    fresh = target.with_name(f"{target.name}.new")
    try:
        entries = sorted(_entries(folder, folder), key=lambda entry: entry.filename)
        checked(entries, LIMITS, _unfit)
        with fresh.open("wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as parcel:
                for entry in entries:
                    _pack(parcel, entry, folder)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(target)
        _sync(target.parent)
    except (ValueError, RuntimeError) as error:  # a name that is no text, a file that grew
        raise _unfit(str(error)) from error
    except OSError as error:
        raise _failed(f"{folder} can't be packed into {target}: {error}") from error
    finally:
        with suppress(OSError):
            fresh.unlink()


def _entries(folder: Path, top: Path) -> Iterator[zipfile.ZipInfo]:
    for path in folder.iterdir():
        if folder == top and path.name in LEFT_OUT:
            continue
        name, found = path.relative_to(top).as_posix(), path.lstat()
        if stat.S_ISDIR(found.st_mode):
            entry = zipfile.ZipInfo(f"{name}/", _WHEN)
            entry.external_attr = (stat.S_IFDIR | 0o700) << 16
            yield entry
            yield from _entries(path, top)
        elif stat.S_ISREG(found.st_mode):
            entry = zipfile.ZipInfo(name, _WHEN)
            entry.external_attr = (stat.S_IFREG | 0o600) << 16
            entry.file_size = entry.compress_size = found.st_size
            yield entry
        else:
            raise _unfit(f"{name!r} is a link or a device")


def _pack(parcel: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path) -> None:
    if entry.is_dir():
        parcel.writestr(entry, b"")
        return
    size = entry.file_size
    with (folder / entry.filename).open("rb") as source, parcel.open(entry, "w") as target:
        shutil.copyfileobj(source, target, _PIECE)
    if entry.file_size != size:
        raise _unfit(f"{entry.filename!r} changed while it was read")


def open_into(parcel: Path, folder: Path) -> None:
    """Make a folder, which must not be there yet, of a parcel.

    It is unpacked into a folder beside it whose name ends in `.new`, brought to the disk, and
    renamed; a crash leaves at most that other one, which the next call removes. So one call at a
    time for a folder. Raises `bad-parcel`, before anything is written, for what could lie elsewhere
    or be too much, and with nothing left for what turns out to be damaged.
    """
    if os.path.lexists(folder):
        raise OperationFailed("folder-exists", f"{folder} is there already: nothing was unpacked")
    fresh = folder.with_name(f"{folder.name}.new")
    try:
        with zipfile.ZipFile(parcel) as opened:
            entries = opened.infolist()
            _check(entries, parcel)
            if fresh.exists():  # a crash left it
                shutil.rmtree(fresh)
            try:
                _unpack(opened, entries, fresh)
                fresh.rename(folder)
            except BaseException:
                shutil.rmtree(fresh, ignore_errors=True)
                raise
        _sync(folder.parent)
    except UNREADABLE as error:
        raise _refused(f"it can't be read: {error}") from error
    except OSError as error:
        raise _failed(f"{parcel} can't be unpacked into {folder}: {error}") from error


def _check(entries: list[zipfile.ZipInfo], parcel: Path) -> None:
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise _refused(f"{entry.filename!r} is compressed")
    # Entries that share their bytes could fill a disk from a small file.
    if sum(entry.file_size for entry in entries) > parcel.stat().st_size:
        raise _refused("it says that it holds more than it has")
    checked(entries, LIMITS, _refused)


def _unpack(opened: zipfile.ZipFile, entries: list[zipfile.ZipInfo], folder: Path) -> None:
    """Write all entries; on return they are on the disk, whatever happens."""
    folder.mkdir(parents=True, mode=0o700)
    folders = {folder}
    for entry in entries:
        path = folder / entry.filename
        place = path if entry.is_dir() else path.parent
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        folders.update((place, *(above for above in place.parents if folder in above.parents)))
        if entry.is_dir():
            continue
        with opened.open(entry) as source, path.open("xb") as target:
            shutil.copyfileobj(source, target, _PIECE)
            target.flush()
            os.fsync(target.fileno())
    for place in folders:
        _sync(place)


def _sync(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failed(what: str) -> OperationFailed:
    return OperationFailed(
        "parcel-failed", what, "look at the room on the disk and at who may write", transient=True
    )


def _unfit(why: str) -> OperationFailed:
    return OperationFailed(
        "no-parcel", f"the folder can't be made a parcel: {why}", "it must hold plain files only"
    )


def _refused(why: str) -> OperationFailed:
    return OperationFailed(
        "bad-parcel", f"the parcel was refused: {why}", "make it anew from the query's folder"
    )
