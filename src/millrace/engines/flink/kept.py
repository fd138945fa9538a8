"""What a job of Flink keeps in its folder: which run is its last, and the snapshots to go on from.

The folder may be moved as a whole, so what is inside it is named from there. Snapshots are in
`savepoints` and `checkpoints`, by run; one is complete when its file `_metadata` is there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from millrace.errors import OperationFailed

_FILE: Final = "flink.json"
_KINDS: Final = ("savepoints", "checkpoints")
_COMPLETE: Final = "_metadata"


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known of a job's last run, also by who did not start it."""

    #: Flink's id of it, chosen by us before it was asked for.
    run: str = ""
    #: Whether the cluster is known to have taken it.
    taken: bool = False
    #: Of its program; see `Program`.
    digest: str = ""
    #: The snapshot that it began with, or that its successor begins with; empty without one.
    begin: str = ""


def read_kept(place: Path) -> Kept:
    """Return what is known of a folder's job; nothing where none ran there."""
    try:
        return Kept(**json.loads((place / _FILE).read_text("utf-8")))
    except FileNotFoundError:
        return Kept()
    except (OSError, ValueError, TypeError) as error:
        raise OperationFailed(
            "state-broken",
            f"{place / _FILE} can't be read: {error}",
            "put back a copy of it; without it the job would begin anew",
        ) from error


def write_kept(place: Path, kept: Kept) -> None:
    """Keep what is known; whole or not at all."""
    place.mkdir(parents=True, exist_ok=True)
    fresh = place / f"{_FILE}.new"
    fresh.write_text(json.dumps(asdict(kept)), encoding="utf-8")
    fresh.replace(place / _FILE)


def target(place: Path, kind: str, run: str = "") -> str:
    """Return the folder for snapshots of a kind, of a run or of all, as Flink names it."""
    return f"file://{place.absolute()}/{kind}/{run}" if run else f"file://{place.absolute()}/{kind}"


def named(place: Path, location: str) -> str:
    """Return the name to keep of a snapshot: from the folder where it is in there, else whole."""
    path = _local(location)
    if path is None:
        return location
    for base in (place.absolute(), place.resolve()):
        if path.is_relative_to(base) and (path / _COMPLETE).is_file():
            return str(path.relative_to(base))
    return location


def located(place: Path, name: str) -> str:
    """Return where a snapshot that was kept by name is now, as Flink names it."""
    if not name or name.startswith("/") or ":" in name.partition("/")[0]:
        return name
    if not (place / name / _COMPLETE).is_file():
        raise OperationFailed(
            "no-savepoint",
            f"the savepoint {place / name}, from which the job is to go on, is not there",
            "put it back; the job does not begin anew by itself",
        )
    return f"file://{place.absolute()}/{name}"


def newest(place: Path, run: str) -> str:
    """Return the name of the last complete snapshot of a run in its folder; empty without one."""
    found = [(path.stat().st_mtime_ns, path.parent) for path in _complete(place, run)]
    return str(max(found)[1].relative_to(place)) if found else ""


def tidy(place: Path, begin: str, run: str = "") -> None:
    """Remove all snapshots in a folder but one, and those of a run that may be writing there."""
    kept = place / begin if begin else None
    for folder in (it for kind in _KINDS for it in (place / kind).glob("*")):
        if run and folder.name == run:
            continue
        if kept is None or not kept.is_relative_to(folder):
            shutil.rmtree(folder, ignore_errors=True)
            continue
        for other in folder.glob("*"):
            if other != kept and other.name.startswith(("savepoint-", "chk-")):
                shutil.rmtree(other, ignore_errors=True)


def _complete(place: Path, run: str) -> Iterator[Path]:
    if run:
        for kind in _KINDS:
            yield from (place / kind / run).glob(f"*/{_COMPLETE}")


def _local(location: str) -> Path | None:
    """The path of a location on this machine's file system; None for one elsewhere."""
    scheme, colon, rest = location.partition(":")
    if not colon:
        return Path(location)
    if scheme != "file":
        return None
    path = Path("/" + rest.lstrip("/"))
    return path if path.exists() else Path(unquote(str(path)))
