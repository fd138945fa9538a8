"""What an agent keeps of a pipeline between starts: what was applied, and where jobs live."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from millrace.errors import OperationFailed, SpecError
from millrace.model.pipeline import Pipeline
from millrace.spec import FileFormat, load_text
from millrace.wire import pipeline_document


@dataclass(frozen=True, slots=True)
class Applied:
    """The pipeline as it was last made, and the number of each job's folder."""

    pipeline: Pipeline = field(default_factory=lambda: Pipeline(""))
    places: dict[str, int] = field(default_factory=dict)


def read_applied(place: Path) -> Applied:
    """Return what was applied last; nothing for a pipeline that never ran."""
    try:
        document = json.loads((place / "applied.json").read_text("utf-8"))
        text, places = json.dumps(document["pipeline"]), document["places"]
        loaded = load_text(text, "applied.json", file_format=FileFormat.NATIVE)
        return Applied(loaded.required(), places)
    except FileNotFoundError:
        return Applied()
    except (ValueError, TypeError, KeyError, SpecError) as error:
        raise OperationFailed(
            "state-broken",
            f"what was applied last can't be read: {place / 'applied.json'}",
            "move that folder away to begin anew",
        ) from error


def write_applied(place: Path, applied: Applied) -> None:
    """Keep what was applied; whole or not at all."""
    document = {"pipeline": pipeline_document(applied.pipeline), "places": applied.places}
    fresh = place / "applied.json.new"
    fresh.write_text(json.dumps(document, indent=1), encoding="utf-8")
    fresh.replace(place / "applied.json")


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Hold a pipeline's folder; a second run of the same pipeline is refused."""
    place.mkdir(parents=True, exist_ok=True)
    place.chmod(0o700)
    with (place / "run.lock").open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise OperationFailed(
                "already-running",
                f"this pipeline already runs (process {lock.read().strip() or 'unknown'})",
                "stop it there with Ctrl-C, or give this one another --home",
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
