"""Jobs that are programs for Spark (`jar`): a driver of their own, and a black box to Millrace.

A program finds its streams in its arguments ({bootstrap}, {topic:NAME}, {place}) or in Spark's own
settings under `spark.millrace.`; what it promises of records is its own affair.
"""

from __future__ import annotations

import importlib.util
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from millrace.engines.spark import lease
from millrace.errors import OperationFailed, nearest
from millrace.machine import Child, Java
from millrace.machine.process import leashed
from millrace.machine.secrets import resolved
from millrace.model.job import Job
from millrace.model.status import JobFacts
from millrace.model.work import Jar
from millrace.ports import JobOrder, JobState, JobStatus

#: How long a program may take to end by itself.
GRACE_SECONDS = 8.0
DEFAULT_MASTER: Final = "local[*]"
_PLACEHOLDER: Final = re.compile(r"\{(bootstrap|place|topic:([^{}]+))\}")
#: How much of a program's last words is looked at, and how many lines are told.
_LAST_WORDS, _LINES = 4_000, 8
#: A program that fails so often in a row, each time within so many seconds, is not started again.
QUICK_FAILURES, QUICK_SECONDS = 3, 60.0


class ProgramEngine:
    """Runs one program; it needs no driver that is up before its job."""

    #: There is nothing that must be up before a job; what its job does is told by `status`.
    alive = True
    page = ""

    def __init__(
        self,
        place: Path,
        java: Java,
        jars: Sequence[Path],
        *,
        master: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.place = place
        self._java = java
        self._jars = tuple(jars)
        self._master = master or DEFAULT_MASTER
        self._options = dict(options or {})
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._status: dict[str, JobStatus] = {}
        #: When the program began, where its words begin in the log, how often it failed quickly.
        self._began = 0.0
        self._from = 0
        self._quick = 0
        #: What the program is told that may be secret; there only while it may be needed.
        self._private: tuple[Path, ...] = ()

    @property
    def pid(self) -> int | None:
        """The program's process, while there is one."""
        return self._child.pid if self._child is not None else None

    @property
    def log(self) -> Path:
        """What the program says."""
        return self.place / "driver.log"

    def launch(self) -> None:
        """Nothing to do: the program begins with its job."""

    def wait(self) -> None:
        """Nothing to wait for."""

    def examine(self, orders: Sequence[JobOrder]) -> Mapping[str, JobFacts]:
        """Look whether the programs are there; see the port."""
        return {order.job.name: _facts(order) for order in orders}

    def start(self, order: JobOrder) -> None:
        """Run the program; see the port."""
        with self._lock:
            if self._child is not None and self._child.alive:
                return
            _facts(order)
            order.place.mkdir(parents=True, exist_ok=True)
            generation = lease.clear(order.place)
            self._from = _size(self.log)
            self._began = time.monotonic()
            environment = {**os.environ, "JAVA_HOME": str(self._java.home), "SPARK_HOME": _spark()}
            self._private = (self.place / "spark.properties", order.place / "client.properties")
            command = leashed(list(self._command(order)))
            self._child = Child.start(command, self.log, environment=environment)
            if _size(self.log) < self._from:  # it was put aside, and begun anew
                self._from = 0
            lease.take(order.place, generation, self._child.pid)
            self._status[order.job.name] = JobStatus(
                JobState.RUNNING, reasons=("a program of its own decides",)
            )

    def _command(self, order: JobOrder) -> Iterator[str]:
        jar = order.job.jar or Jar("")
        yield from (f"{_spark()}/bin/spark-submit", "--master", self._master)
        if jar.entry is not None:
            yield from ("--class", jar.entry)
        settings = {**self._settings(order), **self._options, **_options(order.job)}
        yield from ("--properties-file", str(_private(self.place / "spark.properties", settings)))
        yield str(order.code / jar.path)
        yield from (_filled(argument, order) for argument in jar.arguments)

    def _settings(self, order: JobOrder) -> dict[str, str]:
        jars = [str(jar) for folder in self._jars for jar in folder.glob("*.jar")]
        job = order.job
        return {
            "spark.app.name": f"millrace-{job.name}",
            "spark.jars": ",".join(jars),
            "spark.ui.port": "0",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(self.place / "tmp"),
            "spark.sql.warehouse.dir": str(self.place / "warehouse"),
            "spark.millrace.job": job.name,
            "spark.millrace.place": str(order.place),
            "spark.millrace.bootstrap": _bootstrap(order),
            "spark.millrace.client": str(_client(order)),
            **{
                f"spark.millrace.topic.{name}": order.pipeline.streams[name].address
                for name in (*job.reads, *job.writes)
            },
        }

    def stop(self, job: str, ends: Mapping[str, Mapping[int, int]] | None = None) -> None:  # noqa: ARG002
        """Ask the program to end, and end it after a while; how far it read only it knows."""
        with self._lock:
            if self._child is not None:
                self._child.end(GRACE_SECONDS)
            for path in self._private:
                path.unlink(missing_ok=True)
            if job in self._status:
                self._status[job] = replace(self._status[job], state=JobState.STOPPED)

    def status(self) -> Mapping[str, JobStatus]:
        """Return what is known of the program; see the port."""
        with self._lock:
            child = self._child
            if child is not None and not child.alive:
                for name, known in self._status.items():
                    if known.state is JobState.RUNNING:
                        self._status[name] = self._ended(name, known, child.process.returncode)
            return dict(self._status)

    def _ended(self, name: str, known: JobStatus, code: int) -> JobStatus:
        if code == 0:
            self._quick = 0
            return replace(known, state=JobState.ENDED)
        quick = time.monotonic() - self._began < QUICK_SECONDS
        self._quick = self._quick + 1 if quick else 0
        said = _last_lines(self.log, self._from)
        last = next((line for line in reversed(said) if "xception" in line), "")
        error = f"job {name}: its program ended with {code}"
        failed = replace(known, state=JobState.FAILED, hint=f"see {self.log}")
        if self._quick < QUICK_FAILURES:
            return replace(failed, error=f"{error}{f': {last}' if last else ''}")
        words = " | ".join(said[-_LINES:]) or "(it said nothing)"
        error = f"{error}, {self._quick} times in a row within {QUICK_SECONDS:.0f} s: {words}"
        hint = f"it is not started again: correct it, and run again; all it said is in {self.log}"
        return replace(failed, error=error, hint=hint, transient=False)

    def forget(self, job: str) -> None:
        """Know nothing of a job any more."""
        with self._lock:
            self._status.pop(job, None)

    def close(self) -> None:
        """End the program; see the port."""
        for job in list(self._status):
            self.stop(job)

    def kill(self, grace: float = 0.0) -> None:
        """End the program's processes."""
        if self._child is not None:
            self._child.end(grace)


def _facts(order: JobOrder) -> JobFacts:
    jar = order.job.jar or Jar("")
    path = order.code / jar.path
    if not path.is_file():
        raise OperationFailed(
            "no-jar", f"job {order.job.name}: there is no {path}", "look at `jar.path`"
        )
    _options(order.job)
    schemas = {name: order.pipeline.streams[name].schema or {} for name in order.job.writes}
    return JobFacts(reasons=("a program of its own decides",), schemas=schemas)


def _filled(argument: str, order: JobOrder) -> str:
    """An argument with what stands for streams and places put in."""

    def found(match: re.Match[str]) -> str:
        if match[1] == "bootstrap":
            return _bootstrap(order)
        if match[1] == "place":
            return str(order.place)
        stream = order.pipeline.streams.get(match[2])
        if stream is None or match[2] not in (*order.job.reads, *order.job.writes):
            raise OperationFailed(
                "no-such-topic",
                f"job {order.job.name}: {match[0]} names no stream that it reads or writes",
                "name it in `from:` or `to:`",
            )
        return stream.address

    return _PLACEHOLDER.sub(found, argument)


def _site(job: Job, order: JobOrder) -> str:
    names = (*job.reads, *job.writes)
    return next((order.pipeline.streams[name].site or "" for name in names), job.site or "")


def _bootstrap(order: JobOrder) -> str:
    return order.brokers[_site(order.job, order)]["bootstrap.servers"]


def _client(order: JobOrder) -> Path:
    """A file with all settings of the broker's client, secrets included; only we can read it."""
    return _private(order.place / "client.properties", order.brokers[_site(order.job, order)])


def _options(job: Job) -> dict[str, str]:
    """The job's own settings of Spark; a program has a driver alone, so it may set that, too."""
    if not job.options:
        return {}
    # It loads Spark, which few programs need here.
    from millrace.engines.spark.session import DRIVER_SETTINGS, JOB_SETTINGS  # noqa: PLC0415

    for name in job.options:
        if name not in DRIVER_SETTINGS and not name.startswith(JOB_SETTINGS):
            near = nearest(name, DRIVER_SETTINGS)
            raise OperationFailed(
                "setting-not-allowed",
                f"job {job.name}: {name!r} is not a setting that a job may give",
                f"did you mean {near!r}?"
                if near
                else f"a program may give {', '.join(sorted(DRIVER_SETTINGS))} and "
                f"{', '.join(JOB_SETTINGS)}...",
            )
    return resolved(job.options, f"jobs.{job.name}.options")


def _private(path: Path, settings: Mapping[str, str]) -> Path:
    """Write settings, secrets included, as Java reads them, where only we can read them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # one that is there may be open to others
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.writelines(f"{_escaped(n, ' :=')}={_escaped(v)}\n" for n, v in settings.items())
    return path


def _escaped(text: str, signs: str = "") -> str:
    """A text as Java's files of settings have it: in ASCII, which all of its readers take."""
    named = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    named |= {sign: f"\\{sign}" for sign in signs}
    found = "".join(named.get(sign) or _ascii(sign) for sign in text)
    return f"\\{found}" if found[:1] in (" ", "#", "!") else found


def _ascii(sign: str) -> str:
    if " " <= sign <= "~":
        return sign
    pairs = sign.encode("utf-16-be").hex()
    return "".join(f"\\u{pairs[at : at + 4]}" for at in range(0, len(pairs), 4))


def _size(log: Path) -> int:
    return log.stat().st_size if log.is_file() else 0


def _last_lines(log: Path, since: int) -> list[str]:
    """The last words of a program, those of its predecessors left out."""
    if not log.is_file():
        return []
    with log.open("rb") as file:
        file.seek(max(since, _size(log) - _LAST_WORDS))
        text = file.read().decode("utf-8", "replace")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _spark() -> str:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise OperationFailed(
            "no-spark", "pyspark is not installed", "pip install 'millrace[spark]'"
        )
    return str(Path(found.origin).parent)
