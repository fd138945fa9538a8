"""Files whose lines are records: read by their bytes, as they grow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from millrace.engines.spark.outside.feed import (
    MOST_BYTES,
    Ends,
    Entry,
    Part,
    SourceFailed,
    at_name,
    now,
)
from millrace.engines.spark.outside.numbering import Numbering, Present, gone

_BLOCK = 1024 * 1024


class Lines:
    """A feed: a part is a file, a position a line. Half a line is not read, unless `whole`."""

    def __init__(self, name: str, files: Numbering, *, whole: bool, lossy: bool = False) -> None:
        """`whole` means that files are complete: the last line needs no end.

        With `lossy`, what is gone before it was read is left out.
        """
        self._name = name
        self._bytes = f"{name} bytes"
        self._files = files
        self._whole = whole
        self._lossy = lossy
        self._sizes: dict[int, int] | None = None

    def begin(self) -> Ends:
        """Return the beginning of all files."""
        return {self._name: {}, self._bytes: {}}

    def latest(self, start: Ends) -> Ends:
        """Return the ends of the whole lines that are there."""
        lines, places = dict(start[self._name]), dict(start[self._bytes])
        left = MOST_BYTES
        for number, file in self._present(places).items():
            part = str(number)
            at = places.get(part, 0)
            size = file.size if self._sizes is None else self._sizes.get(number, 0)
            if left > 0 and size > at:
                until = min(size, at + left)
                try:
                    end, more = _whole_lines(file.path, at, until, last=self._whole)
                except FileNotFoundError:
                    continue  # renamed or taken away meanwhile: the next look knows
                left -= end - at
                lines[part], places[part] = lines.get(part, 0) + more, end
        if lines == start[self._name]:
            return start
        return {self._name: lines, self._bytes: places, at_name(self._name): {"0": now()}}

    def freeze(self) -> None:
        """Take files as long as they are now."""
        self._sizes = {number: file.size for number, file in self._files.found().items()}

    def _present(self, places: dict[str, int]) -> dict[int, Present]:
        """The files that are there; one that is shorter than what was read of it is another."""
        files = self._files.found()
        short = [n for n, file in files.items() if file.size < places.get(str(n), 0)]
        for number in short:
            self._files.again(number)
        return self._files.found() if short else files

    def close(self) -> None:
        """Nothing is open between calls."""

    def parts(self, start: Ends, end: Ends) -> Sequence[Part]:
        """Return what each file got."""
        at = end.get(at_name(self._name), {}).get("0", 0)
        before, lines = start[self._bytes], start[self._name]
        return [
            Part(
                int(part),
                lines.get(part, 0),
                {"from": before.get(part, 0), "to": to, **self._files.about(int(part))},
                at,
            )
            for part, to in end[self._bytes].items()
            if to > before.get(part, 0)
        ]

    def records(self, part: Part) -> Iterator[Entry]:
        """Return the lines of a part, without their ends."""
        about = part.about
        try:
            with self._files.opened(about) as file:
                found = lines_between(file, about["from"], about["to"], about["path"])
                for position, line in enumerate(found, part.first):
                    yield Entry(position, line, part.at)
        except SourceFailed:
            if not self._lossy:
                raise


def lines_between(file: BinaryIO, at: int, until: int, name: str) -> Iterator[bytes]:
    """Return the lines between two places of a file; raises where it is shorter than that."""
    file.seek(at)
    while at < until:
        line = file.readline()
        at += len(line)
        if at < until and not line.endswith(b"\n"):  # half a line, or none: the file ends here
            raise gone(name)
        yield line.rstrip(b"\r\n")


def _whole_lines(path: Path, at: int, until: int, *, last: bool) -> tuple[int, int]:
    """Return the end of the last whole line between two places, and how many lines there are.

    A line that does not end before `until` is taken if it is the first one, for it must be some
    time; with `last`, also one that ends with the file.
    """
    end, lines, seen = at, 0, at
    with path.open("rb") as file:
        file.seek(at)
        while seen < until or end == at:
            block = file.read(min(_BLOCK, until - seen) if seen < until else _BLOCK)
            if not block:
                break
            if seen >= until:  # only the rest of the first line
                found = block.find(b"\n")
                lines += found >= 0
            else:
                found = block.rfind(b"\n")
                lines += block.count(b"\n")
            if found >= 0:
                end = seen + found + 1
            seen += len(block)
        if last and seen > end and not file.read(1):
            return seen, lines + 1
    return end, lines
