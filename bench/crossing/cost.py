"""What systems cost: processor time by kind of process, memory, and how long batches take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import psutil

from bench.sites.up import Up
from bench.streams.results import median

#: By words of its command, what a process is; the first that fits.
_KINDS = (
    ("mqtt.receiver", "receiver"),
    ("paho_bridge", "bridge"),
    ("SparkSubmit", "spark jvm"),
    ("pyspark.daemon", "spark python"),
    ("pyspark", "spark python"),
    ("engines.spark.host", "driver python"),
    ("millrace.agent.driver", "driver python"),
    ("mosquitto", "mosquitto"),
    ("kafka.Kafka", "kafka"),
    ("millrace.machine.leash", "leash"),
    ("millrace up", "coordinator"),
    ("bin/millrace", "coordinator"),
    ("flink", "flink"),
    ("crossing.load", "load"),
)


def kind_of(process: psutil.Process) -> str:
    """Return what a process is, in a word."""
    command = " ".join(process.cmdline())
    return next((kind for words, kind in _KINDS if words in command), "other")


def family(pids: int | Iterable[int]) -> list[psutil.Process]:
    """Return processes with all that they started."""
    found: list[psutil.Process] = []
    for pid in (pids,) if isinstance(pids, int) else pids:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            found += [process, *process.children(recursive=True)]
    return found


def memory_mb(pids: int | Iterable[int]) -> dict[str, float]:
    """Return the memory of processes and of all that they started, by kind."""
    found: dict[str, float] = {}
    for process in family(pids):
        with suppress(psutil.Error):
            kind = kind_of(process)
            found[kind] = found.get(kind, 0.0) + process.memory_info().rss / 1e6
    return found


class Spent:
    """Processor time from now on, of processes and of all that they start."""

    def __init__(self, pids: int | Sequence[int]) -> None:
        self._pids = pids
        self._before = self._now()

    def _now(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for process in family(self._pids):
            with suppress(psutil.Error):
                times, kind = process.cpu_times(), kind_of(process)
                found[kind] = found.get(kind, 0.0) + times.user + times.system
        return found

    def by_process(self, seconds: float) -> dict[str, float]:
        """Return how many cores each kind of process used, over so many seconds."""
        return {
            kind: round((used - self._before.get(kind, 0.0)) / seconds, 3)
            for kind, used in self._now().items()
        }

    def total(self, *, whole: bool = False) -> float:
        """Return all processor time in seconds; `whole`: since each process was started."""
        return sum(self._now().values()) - (0.0 if whole else sum(self._before.values()))


def cores_of(cores: Mapping[str, float]) -> str:
    """Return what is worth telling of cores, the most first."""
    told = sorted(cores.items(), key=lambda item: -item[1])
    return ", ".join(f"{kind} {used:.2f}" for kind, used in told if used >= 0.02)


def batches(coordinator: Up, job: str, since: float) -> float | None:
    """Return the median time between the ends of a job's batches since a time, in milliseconds."""
    command = coordinator.talker.command
    home = Path(command[command.index("--home") + 1])
    ends: list[float] = []
    for folder in home.rglob("commits"):
        if job in folder.parts:
            ends += [file.stat().st_mtime for file in folder.glob("[0-9]*") if file.name.isdigit()]
    ends = sorted(at for at in ends if at >= since)
    return median([(b - a) * 1e3 for a, b in pairwise(ends)])
