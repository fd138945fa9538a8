"""Results: one line of JSON for each run, written when it is over, so that nothing is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from millrace.errors import OperationFailed
from millrace.experiment.declaration import Cell
from millrace.experiment.matrix import Key, key_of

FILE = "results.jsonl"


@dataclass(frozen=True, slots=True)
class Result:
    """What a run found, and under which conditions."""

    experiment: str
    cell: Cell
    repeat: int
    seed: int
    #: By measure; empty where the run failed.
    values: Mapping[str, float]
    #: When it began, as ISO 8601, and how long it took.
    started: str
    seconds: float
    #: Why it failed; empty where it did not.
    error: str = ""
    links: str = ""
    machine: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = ()

    @property
    def key(self) -> Key:
        """What tells its run from others."""
        return key_of(self.cell, self.seed)


def append(folder: Path, result: Result) -> None:
    """Add a line and have it on disk when this returns."""
    file = folder / FILE
    with file.open("ab") as out:
        if out.tell() and not _ends_with_line(file):
            out.write(b"\n")  # a line that was cut off stays apart
        out.write(json.dumps(asdict(result), ensure_ascii=False).encode() + b"\n")
        out.flush()
        os.fsync(out.fileno())


def read(folder: Path) -> list[Result]:
    """Return what a folder holds; the last of several lines of a run counts.

    A line that was cut off, as its writer was killed, is left out: its run is done again.
    """
    try:
        lines = (folder / FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    found: dict[Key, Result] = {}
    for number, line in enumerate(lines, 1):
        if (result := _result(line, number, folder / FILE)) is not None:
            found.pop(result.key, None)
            found[result.key] = result
    return list(found.values())


def good(results: Iterable[Result]) -> list[Result]:
    """Return those that did not fail."""
    return [result for result in results if not result.error]


def _result(line: str, number: int, file: Path) -> Result | None:
    try:
        document = json.loads(line)
    except ValueError:
        return None
    try:
        return Result(**document)
    except TypeError:
        raise OperationFailed(
            "bad-results",
            f"line {number} of {file} is no result of an experiment",
            "give another folder with --out",
        ) from None


def _ends_with_line(file: Path) -> bool:
    with file.open("rb") as text:
        text.seek(-1, os.SEEK_END)
        return text.read(1) == b"\n"
