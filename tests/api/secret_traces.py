"""Looks for a text in whatever somebody may read later: files, databases, archives, processes.

What is packed is unpacked, and what is written in another way is known in that way, too: a text
that is only looked for as it stands is not found in most of what is kept.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import resource
import sqlite3
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

#: How zlib begins what it packs, by how hard it tried.
_PACKED = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_SQLITE = (b"SQLite format 3\0", b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_MOST = 64 << 20


def forms(text: str) -> tuple[bytes, ...]:
    """Return the ways in which a text may be written: plain, for Java, in hex and in base64."""
    plain = text.encode()
    found = [plain, text.encode("utf-16-le"), text.encode("utf-16-be"), plain.hex().encode()]
    for before in range(3):  # where it stands in what is encoded changes how it looks
        coded = base64.b64encode(b"\0" * before + plain)
        found.append(coded[-(-before * 8 // 6) : (before + len(plain)) * 8 // 6])
    return tuple(found)


def holds(data: bytes, texts: Iterable[str]) -> list[str]:
    """Return which of some texts are in there, in any form."""
    return [text for text in texts if any(form in data for form in forms(text))]


def layers(data: bytes, depth: int = 3) -> Iterator[bytes]:
    """Yield the data, and what it holds packed: in archives, and in pages of a database."""
    yield data
    if depth == 0:
        return
    if data[:2] == b"\x1f\x8b":
        with suppress(OSError, EOFError, zlib.error):
            yield from layers(gzip.decompress(data), depth - 1)
    if data[:4] == b"PK\3\4":
        with suppress(zipfile.BadZipFile, NotImplementedError), _opened(data) as archive:
            yield "\n".join(archive.namelist()).encode()
            for name in archive.namelist():
                yield from layers(archive.read(name), depth - 1)
    if data.startswith(_SQLITE):
        yield from _unpacked(data)


def _opened(data: bytes) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(data))


def _unpacked(data: bytes) -> Iterator[bytes]:
    """What zlib packed somewhere in there, as far as it is whole."""
    for begin in _PACKED:
        at = data.find(begin)
        while at >= 0:
            yield _begun(memoryview(data)[at : at + (1 << 20)])
            at = data.find(begin, at + 1)


def _begun(data: bytes | memoryview) -> bytes:
    found, packed = bytearray(), zlib.decompressobj()
    with suppress(zlib.error):
        for at in range(0, len(data), 64):
            found += packed.decompress(data[at : at + 64])
            if packed.eof:
                break
    return bytes(found)


def rows(file: Path) -> Iterator[bytes]:
    """Yield every value of a database, unpacked; pages may cut in two what is longer than one."""
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=20)) as opened:
        tables = [row[0] for row in opened.execute("SELECT name FROM sqlite_schema")]
        for table in tables:
            with suppress(sqlite3.DatabaseError):  # an index is no table
                for row in opened.execute(f'SELECT * FROM "{table}"'):  # noqa: S608
                    for value in row:
                        data = value if isinstance(value, bytes) else str(value).encode()
                        yield data
                        if data.startswith(_PACKED):
                            yield _begun(data)


@dataclass
class Looked:
    """What was looked at, and where which text was found."""

    texts: tuple[str, ...]
    #: By place: how many bytes of it were seen.
    seen: dict[str, int] = field(default_factory=dict)
    found: dict[str, set[str]] = field(default_factory=dict)

    def at(self, place: str, data: bytes | str) -> None:
        """Look at something that has a name."""
        data = data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape")
        self.seen[place] = self.seen.get(place, 0) + len(data)
        for layer in layers(data):
            if there := holds(layer, self.texts):
                self.found.setdefault(place, set()).update(there)

    def folder(self, folder: Path) -> None:
        """Look at every file below a folder, its name included; one may go meanwhile."""
        for path in sorted(folder.rglob("*")):
            place = str(path.relative_to(folder.parent))
            self.at("names of files", place)
            with suppress(FileNotFoundError):
                if path.is_file() and not path.is_symlink() and path.stat().st_size < _MOST:
                    data = path.read_bytes()
                    self.at(place, data)
                    if data.startswith(_SQLITE[0]):
                        self.at(f"{place} as rows", b"\n".join(rows(path)))

    def commands(self, *roots: int) -> None:
        """Look at the command lines of some processes and all that they started."""
        for process in family(*roots):
            with suppress(psutil.Error, OSError):
                line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
                self.at("command lines", line + b"\n")

    def where(self, text: str) -> set[str]:
        """Return the places in which a text was found."""
        return {place for place, texts in self.found.items() if text in texts}

    def check(self, *secrets: str, told: str, in_: Iterable[str]) -> None:
        """Raise where a secret is anywhere, or where what is no secret is not seen in some places.

        So each of these places was really looked at, and has what it should have.
        """
        for secret in secrets:
            assert self.where(secret) == set(), (secret, self.where(secret))
        for place in in_:
            seen = [name for name in self.where(told) if place in name]
            assert seen, (f"{told} is not in {place}", sorted(self.seen))


def family(*roots: int) -> list[psutil.Process]:
    """Return some processes, and all that they started and that still run."""
    found = []
    for root in roots:
        with suppress(psutil.NoSuchProcess):
            first = psutil.Process(root)
            found += [one for one in (first, *first.children(recursive=True)) if runs(one)]
    return found


def runs(process: psutil.Process) -> bool:
    """Whether a process has not ended."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def command(process: psutil.Process) -> list[str]:
    """Return the command line of a process; nothing of one that is gone."""
    try:
        found: list[str] = process.cmdline()
    except psutil.Error:
        return []
    return found


def core_limits(*roots: int) -> set[int]:
    """Return how large cores of some processes, and of all that they started, may be."""
    found = set()
    for one in family(*roots):
        with suppress(ProcessLookupError):
            found.add(resource.prlimit(one.pid, resource.RLIMIT_CORE)[0])
    return found


def open_to_others(folder: Path, texts: Iterable[str]) -> list[Path]:
    """Return the files below a folder that hold one of some texts and that others may read."""
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and holds(path.read_bytes(), texts) and path.stat().st_mode & 0o077
    ]


def marked(name: str) -> str:
    """Return a text that stands nowhere else, to be a secret; the same for the same name."""
    return f"hush{name}{hashlib.sha256(name.encode()).hexdigest()[:18]}"
