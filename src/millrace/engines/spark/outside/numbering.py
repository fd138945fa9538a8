"""Files by number: which one is which, though they are renamed, emptied or come again.

A number stands for a file with its first bytes: a log that is turned (renamed, and begun anew)
keeps its number under the new name, and the new one gets another. Only the one who plans gives
numbers and writes them down; those who read are told the file, and look only whether it is that.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, BinaryIO

from millrace.engines.spark.outside.birth import born
from millrace.engines.spark.outside.feed import SourceFailed

#: How much of a file's beginning tells it from others.
_HEAD = 256
#: Names of files that are not read: hidden, in the making, or compressed when a log was turned.
_HIDDEN, _COMPRESSED = (".", "_"), (".gz", ".bz2", ".xz", ".zst", ".zip")
#: The inode of a file that is known no more.
_NONE = -1
#: A file that is renamed during a look may be missed by it, not by several.
_LOOKS = 2


@dataclass(frozen=True, slots=True)
class Numbered:
    """A file that was seen; `head` are its first `known` bytes, as a digest."""

    path: str
    inode: int
    known: int
    head: str
    #: When it was made, in nanoseconds; 0 where the file system does not tell.
    born: int = 0


@dataclass(frozen=True, slots=True)
class Present:
    """A file that is there now."""

    path: Path
    size: int


class Numbering:
    """The files of a pattern, numbered in the order in which they were seen; kept in a file."""

    def __init__(self, pattern: str, kept: Path) -> None:
        """Nothing is read before it is needed: those who only read need no numbers."""
        self._pattern = pattern
        self._kept = kept
        self._known: list[Numbered] | None = None
        #: The numbers of files that may be there, by their inodes.
        self._by_inode: dict[int, list[int]] = {}
        #: By number: size, time of change and path when it was opened; how often it was missed.
        self._seen: dict[int, tuple[int, int, str]] = {}
        self._missed: dict[int, int] = {}
        self._written: list[Numbered] = []

    @property
    def _files(self) -> list[Numbered]:
        if self._known is None:
            documents = json.loads(self._kept.read_bytes()) if self._kept.is_file() else []
            self._known = [Numbered(**document) for document in documents]
            self._written = list(self._known)
            for number, file in enumerate(self._known):
                if file.inode != _NONE:
                    self._by_inode.setdefault(file.inode, []).append(number)
        return self._known

    def found(self) -> dict[int, Present]:
        """Look again: return the files that are there, by number; only for the one who plans.

        Where the file system does not tell when a file was made, one that is missing for some
        looks is forgotten: what comes later with its inode, and begins alike, is another one.
        """
        files, found = self._files, dict[int, Present]()
        for path in _paths(self._pattern):
            try:
                number, size = self._number(path)
            except FileNotFoundError:
                continue  # taken away meanwhile
            found.setdefault(number, Present(path, size))
        self._forget(found)
        if files != self._written:
            self._write()
        return found

    def _forget(self, found: Mapping[int, Present]) -> None:
        doubtful = [n for numbers in self._by_inode.values() for n in numbers]
        for number in doubtful:
            if self._files[number].born:
                continue  # known for ever, also when it comes back
            self._missed[number] = 0 if number in found else self._missed.get(number, 0) + 1
            if self._missed[number] >= _LOOKS:
                self.again(number)

    def _number(self, path: Path) -> tuple[int, int]:
        """A file's number and size; one that did not change since the last look is not opened."""
        stat = path.stat()
        for number in reversed(self._by_inode.get(stat.st_ino, [])):
            if self._seen.get(number) == (stat.st_size, stat.st_ctime_ns, str(path)):
                return number, stat.st_size
        with path.open("rb") as file:
            stat, made = os.fstat(file.fileno()), born(file.fileno())
            head = file.read(_HEAD)
        fresh = Numbered(str(path), stat.st_ino, len(head), _digest(head), made)
        number = self._matching(fresh, head)
        self._seen[number] = (stat.st_size, stat.st_ctime_ns, str(path))
        return number, stat.st_size

    def _matching(self, fresh: Numbered, head: bytes) -> int:
        """The number of a file that is there, a new one if none is like it."""
        numbers = self._by_inode.setdefault(fresh.inode, [])
        for number in reversed(numbers):
            known = self._files[number]
            if known.born in (0, fresh.born) and _digest(head[: known.known]) == known.head:
                self._files[number] = fresh
                return number
        self._files.append(fresh)
        numbers.append(len(self._files) - 1)
        return numbers[-1]

    def _write(self) -> None:
        """Write all down: whoever reads finds the old or the new, whatever is killed."""
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps([asdict(file) for file in self._files])
        descriptor, fresh = tempfile.mkstemp(prefix=f".{self._kept.name}.", dir=self._kept.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            Path(fresh).replace(self._kept)
        except BaseException:
            Path(fresh).unlink(missing_ok=True)
            raise
        self._written = list(self._files)

    def again(self, number: int) -> None:
        """Take what is there for a new file from now on: it was emptied, or came anew."""
        file = self._files[number]
        self._by_inode[file.inode].remove(number)
        if not self._by_inode[file.inode]:
            del self._by_inode[file.inode]
        self._seen.pop(number, None)
        self._missed.pop(number, None)
        self._files[number] = replace(file, inode=_NONE)

    def about(self, number: int) -> dict[str, Any]:
        """Return what tells a file to those who read it, wherever it is by then."""
        if not 0 <= number < len(self._files):
            raise SourceFailed(
                f"{self._kept} does not know file number {number}, which was read before: copy it "
                "back, or give the job another name to begin anew"
            )
        return asdict(self._files[number])

    def opened(self, about: Mapping[str, Any]) -> BinaryIO:
        """Return the file that was told, open, also if it was renamed since; writes nothing."""
        known = Numbered(**{field.name: about[field.name] for field in fields(Numbered)})
        for path in (Path(known.path), *_paths(self._pattern)):
            try:
                file = path.open("rb")
            except FileNotFoundError:
                continue
            if _is(file, known):
                return file
            file.close()
        raise gone(known.path)


def gone(path: str | Path) -> SourceFailed:
    """Return the failure of a file that is not there any more as it was planned."""
    return SourceFailed(
        f"{path} was taken away, or emptied, before all of it was read: move it back (`files` must "
        "cover the names that logs are turned to), or go on without it by options: "
        "{failOnDataLoss: false} on the job"
    )


def _is(file: BinaryIO, known: Numbered) -> bool:
    """Whether an open file is the one that is known; it stands at its beginning then."""
    inode = os.fstat(file.fileno()).st_ino
    if known.inode != inode or known.born not in (0, born(file.fileno())):
        return False
    same = _digest(file.read(known.known)) == known.head
    file.seek(0)
    return same


def _paths(pattern: str) -> Iterator[Path]:
    """The files of a pattern; one that is a folder, by now, means all files in it."""
    pattern = f"{glob.escape(pattern)}/*" if Path(pattern).is_dir() else pattern
    for name in sorted(glob.iglob(pattern, recursive=True)):  # noqa: PTH207 - absolute
        path = Path(name)
        if path.name.startswith(_HIDDEN) or path.name.endswith(_COMPRESSED):
            continue
        if path.is_file():
            yield path


def _digest(head: bytes) -> str:
    return hashlib.sha256(head).hexdigest()
