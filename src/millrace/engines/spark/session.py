"""The Spark session of a driver, and one of its own for each job."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from millrace.engines.spark.java import java_class
from millrace.errors import OperationFailed, nearest
from millrace.model.job import Job

#: Threads of a local master are made on demand, so adding a job never restarts others.
LOCAL_SLOTS = 512
LOOPBACK = "127.0.0.1"
_CHECKPOINT_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
#: Settings that a site's engine may give by Spark's own names.
DRIVER_SETTINGS = frozenset(
    {
        "spark.cores.max",
        "spark.default.parallelism",
        "spark.driver.bindAddress",
        "spark.driver.cores",
        "spark.driver.host",
        "spark.driver.memory",
        "spark.driver.memoryOverhead",
        "spark.driver.port",
        "spark.executor.cores",
        "spark.executor.instances",
        "spark.executor.memory",
        "spark.kubernetes.container.image",
        "spark.kubernetes.namespace",
        "spark.locality.wait",
        "spark.network.timeout",
        "spark.python.worker.memory",
        "spark.scheduler.mode",
        "spark.sql.shuffle.partitions",
        "spark.task.maxFailures",
        "spark.yarn.queue",
    }
)
#: Beginnings of settings that a job may give; what names classes or files is not among them.
JOB_SETTINGS = (
    "spark.sql.adaptive.", "spark.sql.ansi.", "spark.sql.execution.arrow.",
    "spark.sql.legacy.timeParserPolicy", "spark.sql.session.timeZone",
    "spark.sql.shuffle.partitions", "spark.sql.streaming.minBatchesToRetain",
    "spark.sql.streaming.noDataMicroBatches.enabled",
)  # fmt: skip


#: Where state that Python keeps is: written as changes, with checksums, not whole each time.
_ROCKS = "spark.sql.streaming.stateStore.rocksdb"
_KEPT_STATE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    f"{_ROCKS}.changelogCheckpointing.enabled": "true",
    # RocksDB's files are handled by this class and no other; the driver's own instance is another.
    "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
#: Plans of many jobs are deep, and Java reads and writes them by recursion.
_DEEP = "-Xss8m"
#: A small machine has no core to spare for a collector beside the work: a fifth less of its time.
_FEW_CORES = 2
_SMALL = "-XX:+UseSerialGC"
#: Errors with their stacks for each query that is stopped in the middle of a batch, and warnings
#: for each that starts.
_USUAL = (
    "Aborting task|Abort(ing|ed) commit for partition .*"
    "|Data source write support .* (is aborting|aborted)\\."
    "|Disabling AQE since .*|spark.sql.adaptive.enabled is not supported in streaming .*"
)
#: Pages of Spark show the last of each; what they keep is the driver's memory.
_PAGES = {
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.streaming.ui.retainedQueries": "20",
    "spark.sql.streaming.ui.retainedProgressUpdates": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
}
#: How real-time queries write commits, and insist that they are.
_REAL_TIME = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """What a driver is started with."""

    place: Path
    jars: tuple[Path, ...]
    master: str | None = None
    options: Mapping[str, str] | None = None
    java_options: tuple[str, ...] = ()

    @property
    def local(self) -> bool:
        """Whether its tasks run in the driver itself."""
        return self.master is None or self.master.startswith("local")

    @property
    def slots(self) -> int:
        """How many tasks may run at once, as far as that is known before the start."""
        return LOCAL_SLOTS if self.master is None else 10**6


def start_session(settings: DriverSettings) -> SparkSession:
    """Start Spark; raises with the way out where it does not come up."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # The address of Spark's own page; the driver's is set apart below.
    os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    builder = SparkSession.Builder().master(settings.master or f"local[{LOCAL_SLOTS}]")
    for name, value in {**_defaults(settings), **_checked(settings.options or {})}.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise OperationFailed(
            "no-spark",
            f"Spark did not start: {str(error).strip().splitlines()[0]}",
            f"see {settings.place / 'driver.log'}"
            + ("" if settings.local else f"; is {settings.master} the right address?"),
            transient=True,
        ) from error
    session.sparkContext.setLogLevel("WARN")
    with suppress(Exception):  # a longer log is no reason not to start
        _leave_out_usual()
    return session


def _leave_out_usual() -> None:
    """Leave out of the log what Spark says of every start and, as of an error, every planned stop.

    Why a task really failed is told by who ran it, and by its query. The filter is asked of what
    the level lets pass, not of all that Java's code could say.
    """
    core = "org.apache.logging.log4j.core"
    result = java_class(f"{core}.Filter$Result")
    usual = java_class(f"{core}.filter.RegexFilter").createFilter(
        _USUAL,
        None,
        False,  # noqa: FBT003 - whether the message is looked at before it is put together
        result.DENY,
        result.NEUTRAL,
    )
    context = java_class("org.apache.logging.log4j.LogManager").getContext(False)  # noqa: FBT003
    context.getConfiguration().getRootLogger().addFilter(usual)
    context.updateLoggers()


def _java_options() -> tuple[str, ...]:
    """What Java is told, whatever it runs."""
    return (_DEEP, _SMALL) if (os.cpu_count() or 1) <= _FEW_CORES else (_DEEP,)


def _defaults(settings: DriverSettings) -> dict[str, str]:
    found = {
        "spark.app.name": f"millrace-{settings.place.name}",
        "spark.driver.memory": "1500m",
        "spark.driver.extraJavaOptions": " ".join((*_java_options(), *settings.java_options)),
        "spark.jars": ",".join(
            str(jar) for folder in settings.jars for jar in folder.glob("*.jar")
        ),
        "spark.local.dir": str(settings.place / "tmp"),
        "spark.sql.warehouse.dir": str(settings.place / "warehouse"),
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        **_PAGES,
        # A batch that is written in a transaction passes the driver: its size has its own limit.
        "spark.driver.maxResultSize": "0",
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stopTimeout": "8s",
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
        "spark.cleaner.periodicGC.interval": "60min",
        # A task of a real-time query keeps its consumer: 64, the default, are not kept but cleared.
        "spark.kafka.consumer.cache.capacity": str(LOCAL_SLOTS),
        # Python workers hold a batch several times: 64 MB, the default, is much for large records.
        "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
        # Hadoop starts a chmod for every file that it writes, checksums included; not this one.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
    }
    if settings.local:
        found |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    else:
        found |= {"spark.driver.bindAddress": "0.0.0.0"}  # noqa: S104 - executors must reach it
    return found


def _checked(options: Mapping[str, str]) -> dict[str, str]:
    for name in options:
        if name not in DRIVER_SETTINGS:
            near = nearest(name, DRIVER_SETTINGS)
            raise OperationFailed(
                "setting-not-allowed",
                f"engine options: {name!r} is not a setting of Spark that may be set",
                f"did you mean {near!r}?"
                if near
                else f"known: {', '.join(sorted(DRIVER_SETTINGS))}",
            )
    return dict(options)


def like_real_time(session: SparkSession) -> None:
    """Let a session write checkpoints as real-time queries do, so that one can go on with them."""
    for name, kept in {**_KEPT_STATE, **_REAL_TIME}.items():
        session.conf.set(name, kept)


def job_session(session: SparkSession, job: Job, allowed: frozenset[str]) -> SparkSession:
    """Return a session for a job alone: its own views and settings, the driver's machine."""
    own = session.newSession()
    if job.keeps_state:
        for name, kept in _KEPT_STATE.items():
            own.conf.set(name, kept)
    for name, value in (job.options or {}).items():
        if name in allowed:
            continue
        if not name.startswith(JOB_SETTINGS):
            raise OperationFailed(
                "setting-not-allowed",
                f"job {job.name}: {name!r} is not a setting that a job may give",
                f"a job may give {', '.join(sorted(allowed))} and {', '.join(JOB_SETTINGS)}...",
            )
        own.conf.set(name, str(value).lower() if isinstance(value, bool) else str(value))
    return own
