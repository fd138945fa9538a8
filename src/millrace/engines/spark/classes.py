"""An archive of the classes that a driver loads: with it Spark is up in half the time.

Java writes it when a Spark that did a little of everything ends, and maps it into later ones. One
that does not fit (another Java, another Spark) is left unused by Java, so it can do no harm.

Run as `python -m millrace.engines.spark.classes ARCHIVE` to write one.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from millrace.machine import Child, Java, leashed

#: Writing one takes half a minute; a machine that needs longer does without.
LIMIT_SECONDS = 240
#: 170 MB each: those of a Java or Spark that is no longer there are removed.
KEPT = 3
#: What changes the path of the classes, beside Spark and Java themselves.
_VARIABLES = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_DIST_CLASSPATH")


def archive_options(java: Java, cache: Path) -> tuple[str, ...]:
    """Return the options with which Java reads the archive, if it was written."""
    place = _place(java, cache)
    there = place.is_file() and place.stat().st_size > 0
    return (f"-XX:SharedArchiveFile={place}",) if there else ()


def write_archive(java: Java, cache: Path, say: Callable[[str], None]) -> None:
    """Write the archive for this Java and this Spark if there is none; failing does no harm.

    Several processes may ask at once: one writes, the others wait. What failed once is not tried
    again: an empty file stands for it.
    """
    place = _place(java, cache)
    if place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            say("preparing Spark, once: it takes half the time to start then")
            _write(place, java)
            _remove_old(place.parent)


def _place(java: Java, cache: Path) -> Path:
    spec = importlib.util.find_spec("pyspark")
    jars = Path(spec.origin).parent / "jars" if spec and spec.origin else Path()
    stamps = [str(path.stat().st_mtime_ns) for path in (java.program, jars) if path.exists()]
    known = [str(java.home), str(jars), *stamps, *(os.environ.get(n, "") for n in _VARIABLES)]
    digest = hashlib.sha256(repr(known).encode()).hexdigest()[:16]
    return cache / "classes" / f"{digest}.jsa"


def _write(place: Path, java: Java) -> None:
    with tempfile.TemporaryDirectory(prefix="write-", dir=place.parent) as folder:
        fresh = Path(folder) / "classes.jsa"
        child = Child.start(
            leashed([sys.executable, "-m", "millrace.engines.spark.classes", str(fresh)]),
            place.parent / "log",
            environment={**os.environ, "JAVA_HOME": str(java.home)},
        )
        try:
            done = child.process.wait(LIMIT_SECONDS) == 0 and fresh.exists()
        except subprocess.TimeoutExpired:
            done = False
        finally:
            child.end(1.0)
        if done:
            fresh.rename(place)
        else:
            place.touch()


def _remove_old(folder: Path) -> None:
    found = sorted(folder.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in found[KEPT:]:
        old.unlink(missing_ok=True)


def main() -> None:
    """Start Spark, run a small batch and a small stream, and let Java write its classes down."""
    from millrace.engines.spark.session import DriverSettings, start_session  # noqa: PLC0415
    from millrace.engines.spark.warm import warm_up  # noqa: PLC0415

    archive = Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="millrace-", ignore_cleanup_errors=True) as folder:
        options = (f"-XX:ArchiveClassesAtExit={archive}",)
        session = start_session(DriverSettings(Path(folder), (), "local[2]", java_options=options))
        java = session.sparkContext._gateway.proc  # type: ignore[union-attr]
        warm_up(session)
        query = (
            session.readStream.format("rate").load().writeStream.format("noop")
            .option("checkpointLocation", str(Path(folder) / "checkpoint"))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination(30)
        session.stop()
        # Java ends, and writes, when nobody is left at its input.
        java.stdin.close()
        java.wait(LIMIT_SECONDS)


if __name__ == "__main__":
    main()
