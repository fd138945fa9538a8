"""Fetches jars through Ivy, which PySpark ships; once, then they are there offline."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from millrace.errors import OperationFailed
from millrace.machine.java import Java

IVY_FILE = Path(__file__).with_name("ivy.xml")
#: About how many files come with all sets; only for the progress bar.
EXPECTED = 50
LIMIT_SECONDS = 1800

Told = Callable[[int, int], None]


def fetch_jars(
    sets: list[str], java: Java, cache: Path, told: Told | None = None, file: Path = IVY_FILE
) -> list[Path]:
    """Return the folders of the sets of jars that a file of Ivy names, fetched if need be.

    By default those are Millrace's own (`kafka`, `spark-kafka`). `told` hears how many of how many
    files are there while they are fetched. Several processes may ask at once: one fetches, the
    others wait.
    """
    known = configurations(file)
    unknown = [name for name in sets if name not in known]
    if unknown:
        raise OperationFailed("unknown-jars", f"there is no set of jars {unknown[0]!r}")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    place = cache / "jars" / digest
    if not place.is_dir():
        with alone(cache / "jars"):
            if not place.is_dir():
                _fetch(place, java, cache, told, file)
    return [place / name for name in sets]


def configurations(file: Path = IVY_FILE) -> list[str]:
    """Return the names of the sets of jars."""
    tree = ElementTree.parse(file)  # noqa: S314 - our own file
    return [conf.attrib["name"] for conf in tree.iter("conf")]


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder for the time of a block; made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def spark_jars() -> Path | None:
    """Return the folder of the jars that PySpark ships, if it is installed."""
    spec = importlib.util.find_spec("pyspark")
    return Path(spec.origin).parent / "jars" if spec and spec.origin else None


def _ivy() -> Path:
    folder = spark_jars()
    found = sorted(folder.glob("ivy-*.jar")) if folder else []
    if not found:
        raise OperationFailed(
            "no-spark", "PySpark is not installed", "pip install 'millrace[spark,kafka]'"
        )
    return found[-1]


def _fetch(place: Path, java: Java, cache: Path, told: Told | None, file: Path) -> None:
    ivy = _ivy()
    fresh = Path(tempfile.mkdtemp(prefix="fetch-", dir=place.parent))
    settings = os.environ.get("MILLRACE_IVY_SETTINGS")
    command = [
        str(java.program),
        "-jar",
        str(ivy),
        *(["-settings", settings] if settings else []),
        "-ivy",
        str(file),
        "-cache",
        str(cache / "ivy"),
        "-retrieve",
        f"{fresh}/[conf]/[artifact]-[revision].[ext]",
    ]
    try:
        said = _run(command, told)
        missing = [name for name in configurations(file) if not (fresh / name).is_dir()]
        if missing:
            raise _not_fetched(said)
        fresh.rename(place)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _run(command: list[str], told: Told | None) -> list[str]:
    said: list[str] = []
    done = 0
    with subprocess.Popen(  # noqa: S603 - argv, no shell
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as ivy:
        for line in ivy.stdout or ():
            said.append(line.strip())
            if "[SUCCESSFUL ]" in line:
                done += 1
                if told is not None:
                    told(done, max(EXPECTED, done))
        code = ivy.wait(LIMIT_SECONDS)
    if code != 0:
        raise _not_fetched(said)
    if told is not None:
        told(done, done)
    return said


def _not_fetched(said: list[str]) -> OperationFailed:
    notes = [line for line in said if "not found" in line or "exception" in line.lower()]
    detail = f": {notes[0]}" if notes else ""
    return OperationFailed(
        "jars-not-fetched",
        f"the jars could not be fetched{detail}",
        "they are needed once, from a Maven repository: check the network, or name another one in "
        "an Ivy settings file and set MILLRACE_IVY_SETTINGS to it",
        transient=True,
    )
