"""What Millrace asks of Flink's REST API, in its own words."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final
from urllib.parse import quote

from millrace.engines.flink.calls import Calls, Refused
from millrace.engines.flink.failures import cause_of, jar_gone, refused_run
from millrace.engines.flink.program import Program
from millrace.errors import OperationFailed

UPLOAD_SECONDS: Final = 300.0
#: A program's own `main` runs within this.
RUN_SECONDS: Final = 120.0
#: How long a savepoint may take.
SAVEPOINT_SECONDS: Final = 300.0
_QUICK_SECONDS: Final = 10.0
#: Between two looks at a savepoint on its way, in seconds: first and at most.
_LOOKS: Final = (0.02, 0.5)
#: A task's counters of records: of its source what it gave on, of its sink what it was given.
_COUNTERS: Final = {
    "Source": re.compile(r"\d+\.Source__.*\.numRecordsOut"),
    "Sink": re.compile(r"\d+\.Sink__.*\.numRecordsIn"),
}
_MOST_COUNTERS: Final = 50
#: Of how many runs the names of counters are remembered.
_MOST_RUNS: Final = 1_000
#: States of a job after which nothing comes.
OVER: Final = frozenset({"FINISHED", "CANCELED", "FAILED"})


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A job as Flink's overview shows it."""

    id: str
    name: str
    state: str
    #: By state, of its tasks.
    tasks: Mapping[str, int] = field(default_factory=dict)
    #: In seconds since the epoch.
    since: float = 0.0

    @property
    def over(self) -> bool:
        """Whether it runs no more and never will."""
        return self.state in OVER

    @property
    def waiting(self) -> int:
        """How many tasks wait to run."""
        names = ("created", "scheduled", "deploying", "initializing", "reconciling")
        return sum(self.tasks.get(name, 0) for name in names)


@dataclass(frozen=True, slots=True)
class Slots:
    """The places for tasks of a cluster."""

    managers: int
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A savepoint or checkpoint that is complete; `at` in seconds since the epoch."""

    path: str
    at: float


class FlinkRest:
    """A cluster; any thread may call. A jar is sent once, whoever asks for it."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        #: By the digest of its content: the name that the server gave a jar.
        self._jars: dict[str, str] = {}
        self._sending = Lock()
        #: By run: the names of its counters; see `records`.
        self._counters: dict[str, dict[str, dict[str, str]]] = {}

    @property
    def url(self) -> str:
        """Its address."""
        return self.calls.address.url

    def jobs(self) -> dict[str, SeenJob]:
        """Return all jobs that the cluster remembers, by id."""
        document = self.calls.get("/jobs/overview", seconds=_QUICK_SECONDS)
        return {str(job["jid"]): _seen(job) for job in document["jobs"]}

    def state(self, job: str) -> str | None:
        """Return a job's state, never an old one; None for one that the cluster does not know."""
        try:
            return str(self.calls.get(f"/jobs/{job}/status", seconds=_QUICK_SECONDS)["status"])
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def slots(self) -> Slots:
        """Return how many tasks the cluster can run, and how many more."""
        found = self.calls.get("/overview", seconds=_QUICK_SECONDS)
        keys = ("taskmanagers", "slots-total", "slots-available")
        try:
            return Slots(*(int(found[key]) for key in keys))
        except (LookupError, TypeError, ValueError):
            raise OperationFailed(
                "no-flink", f"what answers at {self.url} is no Flink", "look at `engine.address`"
            ) from None

    def settings(self) -> dict[str, str]:
        """Return the settings that the JobManager was started with."""
        found = self.calls.get("/jobmanager/config", seconds=_QUICK_SECONDS)
        return {str(item["key"]): str(item["value"]) for item in found}

    def cause(self, job: str) -> str:
        """Return why a job failed last, in a line; empty where nothing is known."""
        try:
            found = self.calls.get(
                f"/jobs/{job}/exceptions?maxExceptions=1", seconds=_QUICK_SECONDS
            )
        except Refused:
            return ""
        entries = (found.get("exceptionHistory") or {}).get("entries") or []
        text = entries[0].get("stacktrace") if entries else found.get("root-exception")
        return cause_of(text or "")

    def records(self, job: str) -> tuple[int, int] | None:
        """Return how many records a run took in and gave out, as far as Flink counts them.

        In are those that its sources gave on, out those that its sinks were given.
        """
        try:
            if job not in self._counters:
                if len(self._counters) > _MOST_RUNS:
                    self._counters.clear()
                self._counters[job] = self._counters_of(job)
            sides = self._counters[job]
            return self._sum(job, sides["Source"]), self._sum(job, sides["Sink"])
        except Refused:
            return None

    def _counters_of(self, job: str) -> dict[str, dict[str, str]]:
        """By side and task: the names of the counters of a run, which stay the same."""
        found: dict[str, dict[str, str]] = {"Source": {}, "Sink": {}}
        path = f"/jobs/{job}"
        for vertex in self.calls.get(path, seconds=_QUICK_SECONDS).get("vertices", []):
            task = f"{path}/vertices/{vertex['id']}/metrics"
            names = [str(it["id"]) for it in self.calls.get(task, seconds=_QUICK_SECONDS)]
            for side, pattern in _COUNTERS.items():
                if matching := [name for name in names if pattern.fullmatch(name)]:
                    found[side][task] = ",".join(matching[:_MOST_COUNTERS])
        return found

    def _sum(self, job: str, counters: Mapping[str, str]) -> int:
        if not counters:  # none were there yet
            self._counters.pop(job, None)
        asked = (
            self.calls.get(f"{task}?get={quote(names, safe=',')}", seconds=_QUICK_SECONDS)
            for task, names in counters.items()
        )
        return sum(int(it["value"]) for answer in asked for it in answer)

    def jar(self, program: Program) -> str:
        """Return the server's name of a program's jar; sent if no jar of its content is there."""
        name = f"{program.sha256}.jar"
        with self._sending:
            known = self._jars.get(program.sha256)
            if known is None:
                listed = self.calls.get("/jars").get("files", [])
                known = next((str(it["id"]) for it in listed if it["name"] == name), None)
            if known is None:
                sent = self.calls.upload("/jars/upload", program.jar, name, seconds=UPLOAD_SECONDS)
                known = str(sent["filename"]).replace("\\", "/").rpartition("/")[2]
            self._jars[program.sha256] = known
            return known

    def run(
        self, program: Program, job: str, name: str, settings: Mapping[str, str], begin: str = ""
    ) -> None:
        """Run a program as the job of an id, from a snapshot where one is given.

        A server that has lost its jar, as one that was restarted has, is sent it again.
        """
        document: dict[str, Any] = {
            "entryClass": program.entry,
            "programArgsList": list(program.arguments),
            "parallelism": program.parallelism,
            "jobId": job,
            "flinkConfiguration": {**program.settings, **settings, "pipeline.name": name},
        }
        if begin:
            document |= {"savepointPath": begin, "allowNonRestoredState": program.leaves_state}
        try:
            try:
                self._run(program, document)
            except Refused as refused:
                if not jar_gone(refused):
                    raise
                self._jars.pop(program.sha256, None)
                self._run(program, document)
        except Refused as refused:
            raise refused_run(refused, program, begin) from refused

    def _run(self, program: Program, document: Mapping[str, Any]) -> None:
        self.calls.post(f"/jars/{self.jar(program)}/run", document, seconds=RUN_SECONDS)

    def cancel(self, job: str) -> None:
        """Ask a job to end as it is; one that is over already is left alone."""
        try:
            self.calls.patch(f"/jobs/{job}?mode=cancel")
        except Refused as refused:
            if refused.status not in (404, 409):
                raise

    def savepoint(self, job: str, target: str, *, stop: bool) -> str:
        """Have a savepoint written below a folder and return its path; the job ends with `stop`.

        Raises `savepoint-failed` where it can't be written.
        """
        if stop:
            asked = {"targetDirectory": target, "drain": False}
            trigger = self.calls.post(f"/jobs/{job}/stop", asked)["request-id"]
        else:
            asked = {"target-directory": target, "cancel-job": False}
            trigger = self.calls.post(f"/jobs/{job}/savepoints", asked)["request-id"]
        until, pause = time.monotonic() + SAVEPOINT_SECONDS, _LOOKS[0]
        while True:
            found = self.calls.get(f"/jobs/{job}/savepoints/{trigger}")
            if found["status"]["id"] == "COMPLETED":
                return _location(found.get("operation") or {})
            if time.monotonic() > until:
                raise OperationFailed(
                    "savepoint-slow",
                    f"the savepoint was not written within {SAVEPOINT_SECONDS:.0f} s",
                    f"look at the job's checkpoints on Flink's page: {self.url}",
                    transient=True,
                )
            time.sleep(pause)
            pause = min(pause * 1.5, _LOOKS[1])

    def dispose(self, path: str) -> None:
        """Have a savepoint removed that nobody needs any more; where that fails, it stays."""
        with suppress(OperationFailed):
            self.calls.post("/savepoint-disposal", {"savepoint-path": path})

    def snapshot(self, job: str) -> Snapshot | None:
        """Return the last snapshot that a job has written and the cluster did not discard."""
        try:
            latest = self.calls.get(f"/jobs/{job}/checkpoints", seconds=_QUICK_SECONDS)["latest"]
        except Refused:
            return None
        found = [latest.get(kind) for kind in ("completed", "savepoint")]
        kept = [it for it in found if it and it.get("external_path") and not it.get("discarded")]
        known = [Snapshot(str(it["external_path"]), it["trigger_timestamp"] / 1000) for it in kept]
        real = [it for it in known if "<" not in it.path]  # some are in the server's memory only
        return max(real, key=lambda it: it.at, default=None)


def _seen(job: Mapping[str, Any]) -> SeenJob:
    tasks = {str(state): int(count) for state, count in job.get("tasks", {}).items()}
    began = float(job.get("start-time", 0)) / 1000
    return SeenJob(str(job["jid"]), str(job["name"]), str(job["state"]), tasks, began)


def _location(operation: Mapping[str, Any]) -> str:
    if location := operation.get("location"):
        return str(location)
    failure = operation.get("failure-cause") or {}
    cause = cause_of(str(failure.get("stack-trace") or failure.get("class") or ""))
    raise OperationFailed(
        "savepoint-failed",
        f"the savepoint failed: {cause or 'Flink does not say why'}",
        "correct that, and try again",
        transient=True,
    )
