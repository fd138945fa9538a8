"""The settings of a cluster of our own: small, on loopback, and what a user may add."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from millrace.engines.flink.program import JOB_SETTINGS
from millrace.errors import OperationFailed, nearest
from millrace.machine.secrets import write_private

#: The settings that a site may give for its cluster, by how their names begin.
SITE_SETTINGS: Final = (
    *JOB_SETTINGS,
    "heartbeat.",
    "jobmanager.memory.heap.size",
    "jobmanager.memory.jvm-metaspace.size",
    "slot.",
    "taskmanager.memory.",
    "taskmanager.network.",
    "taskmanager.numberOfTaskSlots",
)
_LOOPBACK: Final = "127.0.0.1"
#: What proves that a listener is the cluster that was started: Flink shows it to who asks.
MARK: Final = "millrace.cluster"
_SIZE: Final = re.compile(r"(\d+)\s*(|b|bytes|k|kb|m|mb|g|gb)")
_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_LOG: Final = """rootLogger.level = WARN
rootLogger.appenderRef.console.ref = Console
appender.console.name = Console
appender.console.type = CONSOLE
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p ${sys:millrace.role} %c{1}: %m%n
"""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a cluster listens: for everybody, and for its own processes."""

    rest: int
    rpc: int


def checked(options: Mapping[str, str]) -> dict[str, str]:
    """Return a site's settings; raises for one that is not for a site to give."""
    for name in options:
        if not name.startswith(SITE_SETTINGS):
            near = nearest(name, [it for it in SITE_SETTINGS if not it.endswith(".")])
            raise OperationFailed(
                "setting-not-allowed",
                f"{name!r} is not a setting that a site may give for its Flink",
                f"did you mean {near!r}?" if near else f"there are {', '.join(SITE_SETTINGS)}",
            )
    return dict(options)


def cluster_settings(
    place: Path, ports: Ports, mark: str, version: int, options: Mapping[str, str]
) -> dict[str, str]:
    """Return all settings of a cluster whose files are in a folder, for a version of Java."""
    hosts = ("jobmanager.rpc.address", "jobmanager.bind-host", "taskmanager.bind-host",
             "taskmanager.host", "rest.address", "rest.bind-address")  # fmt: skip
    found = {
        **dict.fromkeys(hosts, _LOOPBACK),
        "rest.port": str(ports.rest),
        "jobmanager.rpc.port": str(ports.rpc),
        "taskmanager.numberOfTaskSlots": "128",
        "taskmanager.cpu.cores": "2.0",
        "jobmanager.memory.heap.size": "128m",
        "jobmanager.memory.jvm-metaspace.size": "256m",
        "taskmanager.memory.framework.heap.size": "64m",
        "taskmanager.memory.framework.off-heap.size": "64m",
        "taskmanager.memory.task.heap.size": "192m",
        "taskmanager.memory.task.off-heap.size": "0m",
        "taskmanager.memory.network.min": "32m",
        "taskmanager.memory.network.max": "32m",
        "taskmanager.memory.managed.size": "64m",
        "taskmanager.memory.jvm-metaspace.size": "512m",
        "taskmanager.memory.jvm-overhead.min": "64m",
        "taskmanager.memory.jvm-overhead.max": "64m",
        "io.tmp.dirs": str(place / "tmp"),
        "web.upload.dir": str(place / "jars"),
        # Errors of jobs are shown from a copy that is at most so old.
        "web.refresh-interval": "500 ms",
        "metrics.fetcher.update-interval": "2 s",
        # The TaskManager is started beside the JobManager, and often is the first to be up.
        "cluster.registration.error-delay": "300 ms",
        "security.delegation.tokens.enabled": "false",
        # On a machine that is busy with other things all takes its time, and nothing is wrong.
        "pekko.ask.timeout": "60 s",
        "heartbeat.timeout": "60 s",
        "heartbeat.interval": "2 s",  # a process that is gone is known after two
        MARK: mark,
    }
    if version < 24:  # Java itself can't do it any more
        # The programs' `main` runs in the JobManager: one that exits would end it, and all jobs.
        found["cluster.intercept-user-system-exit"] = "THROW"
    return {**found, **options}


def write_settings(place: Path, settings: Mapping[str, str]) -> Path:
    """Write the files that Flink reads into a folder, and return that."""
    folder = place / "conf"
    folder.mkdir(parents=True, exist_ok=True)
    lines = (f"{name}: {json.dumps(value)}\n" for name, value in settings.items())
    write_private(folder / "config.yaml", "".join(lines))
    (folder / "log4j.properties").write_text(_LOG, encoding="utf-8")
    return folder


def log_of(place: Path) -> Path:
    """Return the log of both processes."""
    return place / "driver.log"


def java_options(role: str, place: Path, settings: Mapping[str, str], version: int) -> list[str]:
    """Return Java's options for the process of a role: `jobmanager` or `taskmanager`."""

    def size(*names: str) -> int:
        return sum(_bytes(name, settings[name]) for name in names)

    options = [f"-XX:MaxMetaspaceSize={size(f'{role}.memory.jvm-metaspace.size')}"]
    if role == "jobmanager":
        options.append(f"-Xmx{size('jobmanager.memory.heap.size')}")
        options.append("-XX:TieredStopAtLevel=1")  # it only gives orders: what is quick to compile
    else:
        own = "taskmanager.memory"
        options.append(f"-Xmx{size(f'{own}.framework.heap.size', f'{own}.task.heap.size')}")
        off = size(f"{own}.framework.off-heap.size", f"{own}.task.off-heap.size")
        direct = off + size(f"{own}.network.max")
        options.append(f"-XX:MaxDirectMemorySize={direct}")
    if 17 < version < 24:
        options.append("-Djava.security.manager=allow")
    packages = ("lang", "net", "io", "nio", "lang.reflect", "text", "time", "util",
                "util.concurrent", "util.concurrent.atomic", "util.concurrent.locks")  # fmt: skip
    options += [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in packages]
    return [
        *options,
        "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
        "-Xms16m",
        "-Xss512k",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:MinHeapFreeRatio=10",
        "-XX:MaxHeapFreeRatio=30",
        "-XX:ReservedCodeCacheSize=64m",
        f"-Dmillrace.role={role}",
        f"-Dlog.file={log_of(place)}",
        f"-Dlog4j.configurationFile=file:{place / 'conf' / 'log4j.properties'}",
    ]


def _bytes(name: str, text: str) -> int:
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None:
        raise OperationFailed(
            "bad-size", f"{name} is {text!r}, which is no size", "write it like 256m"
        )
    return int(found[1]) * _UNITS[found[2][:1] if found[2] != "bytes" else ""]
