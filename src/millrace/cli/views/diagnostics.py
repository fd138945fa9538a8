"""Problems with the source line shown and marked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from millrace.errors import Diagnostic, Location, Severity
from millrace.model.types import SECRET_WORDS

WIDE = 100
#: Lines by their file and their number in it.
Lines = Mapping[tuple[str, int], str]


def diagnostics_text(
    diagnostics: Sequence[Diagnostic], sources: Mapping[str, str], left_out: int = 0
) -> Text:
    """Return every problem with its place, and a closing line with their number."""
    text = Text()
    lines = _shown(diagnostics, sources)
    for diagnostic in diagnostics:
        text.append_text(_one(diagnostic, lines)).append("\n")
    errors = sum(1 for item in diagnostics if item.severity is Severity.ERROR)
    more = f", and {left_out} more that are not shown" if left_out else ""
    if errors or left_out:
        text.append(f"{errors} error{'' if errors == 1 else 's'}{more}\n", style="bold")
    return text


def _shown(diagnostics: Sequence[Diagnostic], sources: Mapping[str, str]) -> Lines:
    """The lines that problems are about; a file may have millions of others.

    None that may hold a secret is shown: what is shown is kept, by terminals and by CI.
    """
    wanted: dict[str, set[int]] = {}
    for at in (at for item in diagnostics for at in _places(item)):
        wanted.setdefault(at.file, set()).add(at.line)
    for item in diagnostics:
        if item.at is not None and SECRET_WORDS.search(item.message):
            wanted[item.at.file].discard(item.at.line)
    return {
        (file, number): line
        for file, numbers in wanted.items()
        for number, line in _lines(sources.get(file, ""), numbers)
    }


def _lines(source: str, numbers: set[int]) -> Iterator[tuple[int, str]]:
    """Some lines of a text, by their numbers from 1."""
    begin, last = 0, max(numbers, default=0)
    for number in range(1, last + 1):
        end = source.find("\n", begin)
        if number in numbers:
            yield number, source[begin:] if end < 0 else source[begin:end]
        if end < 0:
            return
        begin = end + 1


def _places(diagnostic: Diagnostic) -> Iterator[Location]:
    if diagnostic.at is not None:
        yield diagnostic.at
    yield from (at for at, _ in diagnostic.related)


def _one(diagnostic: Diagnostic, sources: Lines) -> Text:
    colour = "red" if diagnostic.severity is Severity.ERROR else "yellow"
    text = Text()
    text.append(f"{diagnostic.severity}", style=f"bold {colour}")
    text.append(f": {diagnostic.message}\n", style="bold")
    if diagnostic.at is not None:
        text.append_text(_place(diagnostic.at, sources, colour, "-->"))
    for label, value in _details(diagnostic):
        text.append(f"   = {label}: ", style="cyan").append(f"{value}\n")
    for at, what in diagnostic.related:
        text.append_text(_place(at, sources, "cyan", f"::: {what}:"))
    return text


def _details(diagnostic: Diagnostic) -> Iterator[tuple[str, str]]:
    shown = diagnostic.message
    for label, value in (("found", diagnostic.found), ("expected", diagnostic.expected)):
        if value and value not in shown and value not in diagnostic.hint:
            yield label, value
    near = diagnostic.nearest
    if near and repr(near) not in diagnostic.hint:
        yield "nearest", near
    if diagnostic.hint:
        yield "help", diagnostic.hint


def _place(at: Location, sources: Lines, colour: str, arrow: str) -> Text:
    text = Text(f"  {arrow} {at}\n", style="blue")
    found = sources.get((at.file, at.line), "")
    if not found.strip():
        return text
    line, column = _cut(found.rstrip("\r"), at.column)
    margin = " " * len(str(at.line))
    length = _length(line, column)
    mark = re.sub(r"[^\t]", " ", line[: column - 1])
    text.append(f" {margin} |\n", style="blue")
    text.append(f" {at.line} | ", style="blue").append(line + "\n")
    text.append(f" {margin} | ", style="blue").append(mark + "^" * length + "\n", style=colour)
    return text


def _cut(line: str, column: int) -> tuple[str, int]:
    """The part of a long line around a column."""
    start = 0 if column < WIDE else column - WIDE // 2
    part = line[start : start + WIDE]
    column -= start
    if start:
        part, column = "..." + part, column + 3
    return _visible(part), column


def _visible(text: str) -> str:
    return "".join(
        char if char.isprintable() or char == "\t" else "\N{REPLACEMENT CHARACTER}" for char in text
    )


def _length(line: str, column: int) -> int:
    """How far the value at a column goes: a word, or a quoted text."""
    rest = line[column - 1 :]
    match = re.match(r"'[^']*'|\"[^\"]*\"|\$\{\{.*?\}\}|[^\s,\]}:]+", rest)
    return max(len(match[0]) if match else 1, 1)
