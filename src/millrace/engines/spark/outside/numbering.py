"""Files by number: which one is which, though they are renamed, emptied or come again.

A number stands for a file with its first bytes: a log that is turned (renamed, and begun anew)
keeps its number under the new name, and the new one gets another.
"""

from __future__ import annotations

import glob
import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

#: How much of a file's beginning tells it from others.
_HEAD = 256


@dataclass(frozen=True, slots=True)
class Numbered:
    """A file that was seen; `head` are its first `known` bytes, as a digest."""

    path: str
    inode: int
    known: int
    head: str


class Numbering:
    """The files of a pattern, numbered in the order in which they were seen; kept in a file."""

    def __init__(self, pattern: str, kept: Path) -> None:
        """Read what is known; a pattern that is a folder means all files in it."""
        self._pattern = f"{glob.escape(pattern)}/*" if Path(pattern).is_dir() else pattern
        self._kept = kept
        self._files: list[Numbered] = []
        if kept.is_file():
            documents = json.loads(kept.read_text(encoding="utf-8"))
            self._files = [Numbered(**document) for document in documents]

    def found(self) -> dict[int, Path]:
        """Look again: return the files that are there, by number."""
        found: dict[int, Path] = {}
        before = list(self._files)
        for name in sorted(glob.glob(self._pattern, recursive=True)):  # noqa: PTH207 - absolute
            path = Path(name)
            try:
                if path.is_file() and not path.name.startswith((".", "_")):
                    found[self._number(path)] = path
            except FileNotFoundError:
                continue  # taken away meanwhile
        if self._files != before:
            fresh = self._kept.with_suffix(".new")
            fresh.write_text(json.dumps([asdict(file) for file in self._files]), encoding="utf-8")
            fresh.replace(self._kept)
        return found

    def _number(self, path: Path) -> int:
        inode, head = path.stat().st_ino, _head(path)
        for number in range(len(self._files) - 1, -1, -1):
            file = self._files[number]
            if file.inode == inode and _digest(head[: file.known]) == file.head:
                if len(head) > file.known or file.path != str(path):
                    self._files[number] = _numbered(path, inode, head)
                return number
        self._files.append(_numbered(path, inode, head))
        return len(self._files) - 1

    def again(self, number: int) -> None:
        """Take a file for a new one from now on: it was emptied and begins alike."""
        file = self._files[number]
        self._files[number] = replace(file, inode=-1)

    def path(self, number: int) -> Path:
        """Return where a file is now; raises if it is gone."""
        files = self.found()
        if number not in files:
            raise FileNotFoundError(
                f"{self._files[number].path} was taken away, or emptied, before all of it was read"
            )
        return files[number]


def _numbered(path: Path, inode: int, head: bytes) -> Numbered:
    return Numbered(str(path), inode, len(head), _digest(head))


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)


def _digest(head: bytes) -> str:
    return hashlib.sha256(head).hexdigest()
