"""Texts of files: read within limits, decoded, and kept to show lines of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from millrace.errors import Location, Problems

MOST_BYTES: Final = 10 * 1024 * 1024
MOST_FILES: Final = 1_000
#: What marks a project's root, from the file upwards.
ROOT_MARKS: Final = (".git", "millrace.toml", "pyproject.toml")
_URL: Final = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class Source:
    """A text with the name that messages show and the path that includes go by."""

    name: str
    text: str
    path: Path | None = None


@dataclass(slots=True)
class Sources:
    """Reads files inside one root and keeps their texts."""

    problems: Problems
    root: Path
    texts: dict[str, str] = field(default_factory=dict)

    def take(self, source: Source) -> Source | None:
        """Keep a text that is already there, if it is fit to be parsed."""
        self.texts[source.name] = source.text
        return source if fit(source, self.problems) else None

    def read(self, path: Path, name: str, asked_at: Location | None = None) -> Source | None:
        """Read a file; None, with a problem, where that can't be done."""
        if len(self.texts) >= MOST_FILES:
            self.problems.error(
                "too-many-files",
                f"more than {MOST_FILES} files",
                asked_at,
                hint="put several of them into one",
            )
            return None
        at = asked_at or Location(name)
        try:
            if asked_at is not None and not path.is_file():  # a pipe would never end
                self._unreadable(name, ValueError("it is not a file"), at)
                return None
            if path.stat().st_size > MOST_BYTES:
                self._too_large(name, path.stat().st_size, at)
                return None
            with path.open("rb") as stream:  # a pipe or a growing file has no true size
                data = stream.read(MOST_BYTES + 1)
        except (OSError, ValueError) as error:
            self._unreadable(name, error, at)
            return None
        if len(data) > MOST_BYTES:
            self._too_large(name, len(data), at)
            return None
        text = decode(data, name, self.problems)
        return None if text is None else self.take(Source(name, text, path))

    def included(self, name: str, source: Source, at: Location) -> Path | None:
        """Return the path that a file includes, if it is inside the root."""
        if source.path is None:
            self.problems.error(
                "include",
                "a text without a file can't include files",
                at,
                hint="save it to a file first",
            )
            return None
        if _URL.match(name):
            self.problems.error(
                "include-url",
                f"{name!r} is an address, and only files are included",
                at,
                expected="a path inside the project",
                hint="save a copy of it in the project, and include that",
            )
            return None
        try:
            path = (source.path.parent / name).resolve()
            inside = path.is_relative_to(self.root.resolve())
        except (OSError, ValueError, RuntimeError):
            inside = False
        if inside:
            return path
        self.problems.error(
            "include-escape",
            f"{name!r} is outside the project's root",
            at,
            expected="a path inside the folder with .git, millrace.toml or pyproject.toml",
            hint="move the file into the project, or put millrace.toml into a folder above both",
        )
        return None

    def _too_large(self, name: str, size: int, at: Location) -> None:
        self.problems.error(
            "too-large",
            f"{name} has {size:,} bytes",
            at,
            expected=f"at most {MOST_BYTES:,} bytes",
            hint="split it with `include`, or write repeated things with `for`",
        )

    def _unreadable(self, name: str, error: Exception, at: Location) -> None:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        self.problems.error(
            "unreadable",
            f"{name} can't be read: {reason}",
            at,
            hint="check the path and its rights",
        )


def decode(data: bytes, name: str, problems: Problems) -> str | None:
    """Decode UTF-8, with or without a mark; anything else is a problem."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8")) + 1
        problems.error(
            "encoding",
            f"{name} is not UTF-8",
            Location(name, line, column),
            found=f"the byte 0x{data[error.start]:02x}",
            expected="UTF-8 text",
            hint="save the file as UTF-8",
        )
        return None


def fit(source: Source, problems: Problems) -> bool:
    """Whether a text holds nothing that no format allows."""
    for bad, what in (("\0", "a NUL byte"), ("\ud800", "half of a character")):
        index = source.text.find(bad) if bad == "\0" else _surrogate(source.text)
        if index >= 0:
            line = source.text.count("\n", 0, index) + 1
            column = index - (source.text.rfind("\n", 0, index) + 1) + 1
            problems.error(
                "bad-character",
                f"{what} in the text",
                Location(source.name, line, column),
                hint="this is not a text file, or it was damaged",
            )
            return False
    return True


def _surrogate(text: str) -> int:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return error.start
    return -1


def project_root(path: Path) -> Path:
    """Return the folder that includes may not leave: the nearest marked one, or the file's own."""
    folder = path.resolve().parent
    for candidate in (folder, *folder.parents):
        if any((candidate / mark).exists() for mark in ROOT_MARKS):
            return candidate
    return folder
