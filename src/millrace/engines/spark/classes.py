"""The archive of the classes that a driver loads: with it Spark is up in half the time.

Run as `python -m millrace.engines.spark.classes FOLDER OPTION...` to let Java write one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from millrace.machine import Child, ClassArchive, Java, leashed, spark_jars

#: Writing it takes half a minute; a machine that needs longer does without.
LIMIT_SECONDS = 240
#: What changes the path of the classes, beside Spark and Java themselves.
_VARIABLES = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_DIST_CLASSPATH")


def spark_archive(java: Java, cache: Path) -> ClassArchive:
    """Return the archive for this Java and this Spark."""
    return ClassArchive.of(cache / "classes", java, spark_jars() or Path(), *_VARIABLES)


def write_archive(java: Java, cache: Path, say: Callable[[str], None]) -> None:
    """Write it if that was never tried; failing does no harm."""

    def run(folder: Path, options: tuple[str, ...]) -> None:
        child = Child.start(
            leashed([sys.executable, "-m", __name__, str(folder), *options]),
            cache / "classes" / "log",
            environment={**os.environ, "JAVA_HOME": str(java.home)},
        )
        try:
            child.process.wait(LIMIT_SECONDS)
        finally:
            child.end(1.0)

    spark_archive(java, cache).write(
        run, lambda: say("preparing Spark, once: it takes half the time to start then")
    )


def main() -> None:
    """Start Spark, run a small batch and a small stream, and let Java write its classes down."""
    from millrace.engines.spark.session import DriverSettings, start_session  # noqa: PLC0415
    from millrace.engines.spark.warm import warm_up  # noqa: PLC0415

    place, options = Path(sys.argv[1]), tuple(sys.argv[2:])
    session = start_session(DriverSettings(place, (), "local[2]", java_options=options))
    java = session.sparkContext._gateway.proc  # type: ignore[union-attr]
    warm_up(session)
    query = (
        session.readStream.format("rate").load().writeStream.format("noop")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination(30)
    session.stop()
    # Java ends, and writes, when nobody is left at its input.
    java.stdin.close()
    java.wait(LIMIT_SECONDS)


if __name__ == "__main__":
    main()
