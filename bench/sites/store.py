"""How large the desired state of many jobs is in the store, when its journal is compacted."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bench.sites.counted import Calls, counted_shop
from bench.sites.figures import SitePart
from bench.sites.files import NAME, many
from bench.sites.setting import Setting
from bench.streams.results import Bar
from millrace.coordinator.home import Home
from millrace.coordinator.revision import Submission
from millrace.coordinator.station import Station
from millrace.machine import Folders
from millrace.model.pipeline import Pipeline
from millrace.spec import FileFormat, load_text
from millrace.stores.sqlite import SqliteStore
from millrace.stores.sqlite.body import packed

#: What the paper tells of its own store.
LIMIT_KB = 754.0
WAIT_SECONDS = 600.0
_KINDS = ("pipeline", "file", "facts", "revision", "deployment", "former", "operation", "plan")


@contextmanager
def station(place: Path, calls: Calls | None = None) -> Iterator[tuple[Station, Path]]:
    """Have a coordinator on fakes in this process; gives it and the file of its store."""
    home, counts = Home(Folders.of(place / "home")), calls if calls is not None else Calls()

    def at(pipeline: str, site: str) -> Path:
        return place / "sites" / pipeline / site

    found = Station.open(home, lambda p, s: counted_shop(s, at(p, s), counts), at)
    with closing(found):
        yield found, home.place / "state.db"


def loaded(document: dict[str, Any]) -> Pipeline:
    """Return the pipeline of a document, checked."""
    text = json.dumps(document)
    return load_text(text, "bench.json", file_format=FileFormat.NATIVE).required()


def applied(one: Station, wanted: Pipeline) -> None:
    """Apply a file and wait until that is done."""
    begun = one.apply(Submission(wanted, "bench", time.time()))
    until = time.monotonic() + WAIT_SECONDS
    while not (now := one.coordinator.operation(begun.id)).state.over:
        if time.monotonic() > until:
            message = f"{begun.id} is {now.state} after {WAIT_SECONDS:.0f} s"
            raise TimeoutError(message)
        time.sleep(0.05)
    if now.state.value != "done":
        message = f"{begun.id} is {now.state}: {now.reason}"
        raise RuntimeError(message)


def measure(setting: Setting) -> SitePart:
    """Apply one revision to its end, compact the journal, and look at the file."""
    part = SitePart("store")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        with station(Path(folder)) as (one, file):
            applied(one, loaded(many(setting.jobs, setting.sites, setting.seed)))
            last = one.last_entry()
        before = file.stat().st_size / 1024
        with closing(SqliteStore(file)) as kept:
            kept.compact(last + 1)
            kinds = {kind: _kilobytes(kept, kind) for kind in _KINDS}
        size = sum(path.stat().st_size for path in file.parent.glob("state.db*")) / 1024
    part.runs.append({"jobs": setting.jobs, "journal_kb": before - size, "kb": size, **kinds})
    part.rows[f"{setting.jobs} jobs, KB"] = {"store": size, "with its journal": before}
    part.rows["of which, KB"] = dict(kinds)
    part.bars.append(Bar(f"store of {setting.jobs} jobs, KB", size, LIMIT_KB))
    part.notes.append(f"pipeline {NAME}, chains of 10 jobs over {setting.sites} sites")
    return part


def _kilobytes(kept: SqliteStore, kind: str) -> float:
    return sum(len(packed(document)) for document in kept.load(kind).values()) / 1024
