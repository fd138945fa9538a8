"""What Spark wrote down of a query's progress: read, and rid of what a killed writer left.

A query that goes on in another folder than its predecessor finds there where to begin.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from dataclasses import dataclass, field
from pathlib import Path

Positions = dict[str, dict[int, int]]
#: Beside a checkpoint: the positions that another one had committed.
_START = "start.json"


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
    """Return how far a checkpoint is, by topic and partition.

    One without a batch is where its predecessor in another folder was: see `write_start`.
    """
    made, start = checkpoint / "metadata", checkpoint.parent / _START
    batch = max(_batches(checkpoint / "commits"), default=-1) if made.is_file() else -1
    if batch < 0:
        times = [_milliseconds(path) for path in (made, start) if path.is_file()]
        first = {**read_start(checkpoint.parent), **_initial(checkpoint)}
        return Committed(-1, min(times, default=None), first, first)
    commit = checkpoint / "commits" / str(batch)
    lines = (checkpoint / "offsets" / str(batch)).read_text("utf-8").splitlines()
    positions = _positions(lines[2:])
    return Committed(batch, _milliseconds(commit), positions, _initial(checkpoint))


def write_start(place: Path, before: Committed) -> None:
    """Let a job without a checkpoint in its folder begin where another one has committed."""
    place.mkdir(parents=True, exist_ok=True)
    fresh, file = place / f"{_START}.new", place / _START
    fresh.write_text(json.dumps(before.positions), encoding="utf-8")
    if before.at is not None:  # results since then may be in the sinks: they are looked for
        os.utime(fresh, ns=(before.at * 1_000_000,) * 2)
    fresh.replace(file)


def read_start(place: Path) -> Positions:
    """Return where a job begins that has no checkpoint yet, by topic; empty if nobody said."""
    try:
        found = json.loads((place / _START).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return {topic: {int(p): at for p, at in parts.items()} for topic, parts in found.items()}


def make_folders(checkpoint: Path, sources: int) -> None:
    """Make the folders that Spark would make, for which it starts a process each."""
    folders = ["offsets", "commits", *(f"sources/{number}" for number in range(sources))]
    for folder in folders:
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)


def name_query(checkpoint: Path) -> None:
    """Write the id of a new query that Spark would write, for which it starts a process, too.

    One with batches that has lost its id is left alone: Spark refuses to go on with it.
    """
    file, fresh = checkpoint / "metadata", checkpoint / "metadata.new"
    old = any(_batches(checkpoint / folder) for folder in ("offsets", "commits"))
    if not file.is_file() and not old:
        fresh.write_text(json.dumps({"id": str(uuid.uuid4())}), encoding="utf-8")
        fresh.replace(file)


def tidy(checkpoint: Path) -> None:
    """Remove files that a killed driver had begun to write; the lease must be held.

    Spark writes beside and renames, so they mean nothing; but it takes one left from before the
    first batch for a checkpoint that is not its own, and refuses to start for ever.
    """
    for folder in ("offsets", "commits"):
        for begun in (checkpoint / folder).glob(".*.tmp*"):
            begun.unlink(missing_ok=True)
    if not _batches(checkpoint / "commits"):
        # State of a first batch that was never committed: Spark refuses to start beside it.
        shutil.rmtree(checkpoint / "state", ignore_errors=True)


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
