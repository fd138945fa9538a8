"""What Spark wrote down of a query's progress: read, and rid of what a killed writer left."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

Positions = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True)
class Committed:
    """The last committed batch (-1: none), when, and the positions up to which it read."""

    batch: int = -1
    #: When it was committed, or the query made, in milliseconds; None if there never was a query.
    at: int | None = None
    positions: Positions = field(default_factory=dict)
    #: Where the query began.
    first: Positions = field(default_factory=dict)


def committed(checkpoint: Path) -> Committed:
    """Return how far a checkpoint is, by topic and partition."""
    made = checkpoint / "metadata"
    if not made.is_file():
        return Committed()
    batch = max(_batches(checkpoint / "commits"), default=-1)
    if batch < 0:
        first = _initial(checkpoint)
        return Committed(-1, _milliseconds(made), first, first)
    commit = checkpoint / "commits" / str(batch)
    lines = (checkpoint / "offsets" / str(batch)).read_text("utf-8").splitlines()
    positions = _positions(lines[2:])
    return Committed(batch, _milliseconds(commit), positions, _initial(checkpoint))


def make_folders(checkpoint: Path, sources: int) -> None:
    """Make the folders that Spark would make, for which it starts a process each."""
    folders = ["offsets", "commits", *(f"sources/{number}" for number in range(sources))]
    for folder in folders:
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)


def tidy(checkpoint: Path) -> None:
    """Remove files that a killed driver had begun to write; the lease must be held.

    Spark writes beside and renames, so they mean nothing; but it takes one left from before the
    first batch for a checkpoint that is not its own, and refuses to start for ever.
    """
    for folder in ("offsets", "commits"):
        for begun in (checkpoint / folder).glob(".*.tmp*"):
            begun.unlink(missing_ok=True)


def _batches(folder: Path) -> list[int]:
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [int(name) for name in names if name.isdigit()]


def _initial(checkpoint: Path) -> Positions:
    """Where a query began: each source notes its first positions before the first batch."""
    found = sorted((checkpoint / "sources").glob("*/0"))
    texts = [path.read_bytes() for path in found]
    # A zero byte and a version line stand before the JSON.
    return _positions([text[text.find(b"{") :].decode() for text in texts if b"{" in text])


def _positions(lines: list[str]) -> Positions:
    positions: Positions = {}
    for line in lines:
        if not line.startswith("{"):
            continue
        for topic, parts in json.loads(line).items():
            positions.setdefault(topic, {}).update({int(p): at for p, at in parts.items()})
    return positions


def _milliseconds(path: Path) -> int:
    return int(path.stat().st_mtime * 1000)
