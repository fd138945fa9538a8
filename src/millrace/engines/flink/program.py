"""A job as Flink gets it: a jar, its entry class, its arguments and its settings."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from millrace.errors import OperationFailed, nearest
from millrace.machine.secrets import resolved
from millrace.model.job import Job
from millrace.model.work import Jar
from millrace.ports import JobOrder

_PLACEHOLDER: Final = re.compile(r"\{(bootstrap|place|topic:([^{}]+)|broker:([^{}]+))\}")
#: The settings of Flink that a job may give, by how their names begin.
JOB_SETTINGS: Final = (
    "execution.buffer-timeout",
    "execution.checkpointing.",
    "execution.state-recovery.",
    "parallelism.default",
    "pipeline.",
    "restart-strategy.",
    "state.",
    "table.",
)
#: Given by the job's own place and name.
_OURS: Final = ("execution.checkpointing.dir", "pipeline.name", "execution.state-recovery.path")
_IGNORE: Final = "execution.state-recovery.ignore-unclaimed-state"
_ENTRIES: Final = re.compile(r"^(?:Main-Class|program-class):\s*(\S+)", re.MULTILINE)
_JAVA_SCHEMES: Final = {"mqtt": "tcp", "mqtts": "ssl"}
#: How much of a manifest is read.
_MANIFEST_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Program:
    """What is run. `digest` tells it from one that was changed."""

    jar: Path
    sha256: str
    entry: str
    arguments: tuple[str, ...] = field(repr=False)
    parallelism: int
    settings: Mapping[str, str] = field(repr=False)
    #: Whether state that the program does not ask for is left behind.
    leaves_state: bool = False

    @property
    def digest(self) -> str:
        """A short text that is another one when anything of it is."""
        known = (self.sha256, self.entry, self.arguments, self.parallelism)
        whole = repr((*known, sorted(self.settings.items()), self.leaves_state))
        return hashlib.sha256(whole.encode()).hexdigest()[:16]


def program_of(order: JobOrder) -> Program:
    """Return the program of a job; raises, with the way out, where it can't be run."""
    job, jar = order.job, order.job.jar
    if jar is None:
        raise OperationFailed(
            "not-for-flink",
            f"job {job.name}: Flink runs jars, and this is a job of the kind {job.kind}",
            "give it a `jar:`, or let another engine run it",
        )
    path = order.code / jar.path
    if not path.is_file():
        raise OperationFailed("no-jar", f"job {job.name}: there is no {path}", "look at `jar.path`")
    settings = _settings(job)
    parallelism = settings.pop("parallelism.default", str(job.replicas))
    if not parallelism.isdecimal() or not int(parallelism):
        raise OperationFailed(
            "bad-parallelism",
            f"job {job.name}: parallelism.default is {parallelism!r}",
            "give a whole number above 0",
        )
    leaves = settings.pop(_IGNORE, "false").lower() == "true"
    stat = path.stat()
    return Program(
        path,
        _sha256(path, stat.st_size, stat.st_mtime_ns),
        entry_of(job.name, path, jar),
        arguments_of(order, jar),
        int(parallelism),
        settings,
        leaves,
    )


def entry_of(job: str, path: Path, jar: Jar) -> str:
    """Return the entry class of a jar, which is in it; the nearest one is told where it is not."""
    try:
        with zipfile.ZipFile(path) as opened:
            names = {name for name in opened.namelist() if name.endswith(".class")}
            entry = jar.entry or _manifest_entry(opened)
    except (zipfile.BadZipFile, OSError, RuntimeError) as error:
        raise OperationFailed(
            "bad-jar", f"job {job}: {path} is no jar that can be read: {error}", "build it again"
        ) from error
    classes = {name.removesuffix(".class").replace("/", ".") for name in names}
    if entry is None:
        raise OperationFailed(
            "no-entry-class",
            f"job {job}: {path.name} does not say with which class it begins",
            f"write it as `jar.entry`; in it are {_some(classes)}",
        )
    if entry in classes:
        return entry
    near = nearest_class(entry, classes)
    raise OperationFailed(
        "no-such-class",
        f"job {job}: there is no class {entry} in {path.name}",
        f"did you mean {near}? It is `jar.entry`" if near else f"in it are {_some(classes)}",
    )


def nearest_class(name: str, classes: Iterable[str]) -> str:
    """Return the class that was meant, perhaps: of the same name elsewhere, or of a near one."""
    simple = name.rpartition(".")[2]
    outer = sorted(it for it in classes if "$" not in it)
    same = [it for it in outer if it.rpartition(".")[2].lower() == simple.lower()]
    if same:
        return same[0]
    return nearest(name, outer) or next(
        (it for it in outer if it.rpartition(".")[2] == _near_simple(simple, outer)), ""
    )


def _near_simple(simple: str, classes: Iterable[str]) -> str:
    return nearest(simple, {it.rpartition(".")[2] for it in classes}) or "?"


def _some(classes: Iterable[str]) -> str:
    found = sorted(name for name in classes if "$" not in name)
    return (
        ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "") or "none"
    )


def _manifest_entry(opened: zipfile.ZipFile) -> str | None:
    try:
        with opened.open("META-INF/MANIFEST.MF") as file:
            text = file.read(_MANIFEST_BYTES).decode("utf-8", "replace")
    except KeyError:
        return None
    found = _ENTRIES.search(re.sub(r"\r?\n ", "", text))  # long lines are broken
    return found[1] if found else None


@lru_cache(maxsize=256)
def _sha256(path: Path, size: int, changed: int) -> str:  # noqa: ARG001 - a changed file is another
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def arguments_of(order: JobOrder, jar: Jar) -> tuple[str, ...]:
    """Return the program's arguments: the file's, filled in, or else those that SpecK gives.

    SpecK's are named as in its own files: source_broker, source_topic, sink_broker, sink_topic.
    """
    if jar.arguments:
        return tuple(_filled(argument, order) for argument in jar.arguments)
    found: list[str] = []
    for side, names in (("source", order.job.reads), ("sink", order.job.writes)):
        if len(names) > 1:
            raise OperationFailed(
                "arguments-needed",
                f"job {order.job.name}: SpecK's arguments tell of one {side}, and it has "
                f"{len(names)}: {', '.join(names)}",
                "write `jar.arguments` with {broker:NAME} and {topic:NAME} of each",
            )
        for name in names:
            found += [f"--{side}_broker", _broker(name, order)]
            found += [f"--{side}_topic", order.pipeline.streams[name].address]
    return tuple(found)


def _filled(argument: str, order: JobOrder) -> str:
    """An argument with what stands for streams, brokers and places put in."""

    def found(match: re.Match[str]) -> str:
        if match[1] == "place":
            return str(order.place)
        names = (*order.job.reads, *order.job.writes)
        name = match[2] or match[3] or next(iter(names), "")
        if name not in names or name not in order.pipeline.streams:
            raise OperationFailed(
                "no-such-topic",
                f"job {order.job.name}: {match[0]} names no stream that it reads or writes",
                "name it in `from:` or `to:`",
            )
        return order.pipeline.streams[name].address if match[2] else _broker(name, order)

    return _PLACEHOLDER.sub(found, argument)


def _broker(stream: str, order: JobOrder) -> str:
    """The address of the broker that carries a stream: as the file has it, where it does.

    Clients for Java know MQTT by other schemes.
    """
    site = order.pipeline.streams[stream].site or order.job.site or ""
    declared = order.pipeline.sites[site].broker if site in order.pipeline.sites else None
    if declared is not None and declared.address is not None:
        return declared.address
    client = order.brokers.get(site, {})
    address = client.get("address") or client.get("bootstrap.servers")
    if address is None:
        raise OperationFailed(
            "no-broker",
            f"job {order.job.name}: nobody knows the broker of stream {stream}",
            f"write sites.{site}.broker",
        )
    scheme, found, rest = address.partition("://")
    return f"{_JAVA_SCHEMES.get(scheme, scheme)}{found}{rest}"


def _settings(job: Job) -> dict[str, str]:
    """The job's own settings of Flink; what its place and its name say is not for it to say."""
    for name in job.options or {}:
        if name.startswith(JOB_SETTINGS) and name not in _OURS:
            continue
        near = nearest(name, [it for it in JOB_SETTINGS if not it.endswith(".")])
        raise OperationFailed(
            "setting-not-allowed",
            f"job {job.name}: {name!r} is not a setting that a job may give",
            f"did you mean {near!r}?"
            if near
            else f"it may give those that begin with {', '.join(JOB_SETTINGS)}; not "
            f"{', '.join(_OURS)}, which Millrace gives",
        )
    return resolved(job.options, f"jobs.{job.name}.options")
