"""Spark behind the port `Engine`: the agent's side of a driver process."""

from __future__ import annotations

import itertools
import json
import os
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from millrace.engines.spark import lease
from millrace.engines.spark.channel import Channel, Message
from millrace.engines.spark.ledger import progress_of
from millrace.engines.spark.order import order_document
from millrace.errors import OperationFailed
from millrace.machine import Child, Java
from millrace.model.job import Mode
from millrace.model.status import JobFacts
from millrace.ports import JobOrder, JobState, JobStatus

READY_SECONDS = 120.0
ANSWER_SECONDS = 300.0
CLOSE_SECONDS = 9.0


class SparkEngine:
    """A driver process and what is known of its jobs.

    `place` is the driver's folder; the lease in it makes sure that two drivers never write the
    same checkpoints. `program` is the module that is run: one that brings transactions, where jobs
    promise no duplicates.
    """

    def __init__(
        self,
        place: Path,
        java: Java,
        jars: Sequence[Path],
        *,
        master: str | None = None,
        options: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        program: str = "millrace.engines.spark.host",
    ) -> None:
        self.place = place
        self._program = program
        self._java = java
        self._jars = tuple(jars)
        self._master = master
        self._options = dict(options or {})
        self._java_options = tuple(java_options)
        self._child: Child | None = None
        self._channel: Channel | None = None
        self._reader: threading.Thread | None = None
        self._ready: Future[Message] = Future()
        self._answers: dict[int, Future[Message]] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        #: Many may find the driver gone at once; one starts it again.
        self._launching = threading.Lock()
        self._jobs: dict[str, JobStatus] = {}
        self.page = ""
        self.generation = 0

    @property
    def pid(self) -> int | None:
        """The driver's process, while there is one."""
        return self._child.pid if self._child is not None else None

    @property
    def alive(self) -> bool:
        """Whether the driver runs."""
        return self._child is not None and self._child.alive

    @property
    def log(self) -> Path:
        """What the driver says."""
        return self.place / "driver.log"

    def launch(self) -> None:
        """Begin to start the driver and return at once; one that runs is left alone.

        What is left of a predecessor is ended first, and proven gone.
        """
        with self._launching:
            if not self.alive:
                self._launch()

    def _launch(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self.place.mkdir(parents=True, exist_ok=True)
        self.generation = lease.clear(self.place)
        settings = self.place / "driver.json"
        settings.write_text(json.dumps(self._settings()), encoding="utf-8")
        settings.chmod(0o600)
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", self._program, str(theirs.fileno())]
        environment = {**os.environ, "JAVA_HOME": str(self._java.home)}
        with theirs:
            self._child = Child.start(
                [*command, str(settings)],
                self.log,
                environment=environment,
                keep=(theirs.fileno(),),
            )
        self._ready = Future()
        self._channel = Channel(ours)
        self._reader = threading.Thread(target=self._listen, args=(self._channel, self._ready))
        self._reader.daemon = True
        self._reader.start()

    def _settings(self) -> dict[str, Any]:
        return {
            "place": str(self.place),
            "jars": [str(jar) for jar in self._jars],
            "master": self._master,
            "options": self._options,
            "java_options": self._java_options,
            "generation": self.generation,
        }

    def wait(self) -> None:
        """Return when the driver is up; raises with the way out where it does not come up."""
        self.launch()
        try:
            self._ready.result(READY_SECONDS)
        except FutureTimeout:
            self.close()
            raise OperationFailed(
                "driver-slow", f"Spark's driver did not start in {READY_SECONDS:.0f} s",
                f"see {self.log}", transient=True,
            ) from None  # fmt: skip

    def examine(self, orders: Sequence[JobOrder]) -> Mapping[str, JobFacts]:
        """Find out how jobs would run; see the port."""
        found = self._ask({"do": "examine", "orders": [order_document(item) for item in orders]})
        return {
            name: JobFacts(
                Mode(facts["mode"]),
                tuple(facts["reasons"]),
                facts["schemas"],
                tuple(facts["operators"]),
                facts["stateful"],
            )
            for name, facts in found.items()
        }

    def start(self, order: JobOrder) -> None:
        """Run a job; see the port."""
        with self._lock:  # the driver leaves alone what runs, and does not tell of it again
            news = [job.name for job in order.jobs if not self._runs(job.name)]
            self._jobs |= {name: JobStatus(JobState.STARTING) for name in news}
        try:
            self._ask({"do": "start", "order": order_document(order)})
        except OperationFailed as failure:
            for job in order.jobs:
                self._note_failure(job.name, failure)
            raise

    def _runs(self, job: str) -> bool:
        known = self._jobs.get(job)
        return known is not None and known.state is JobState.RUNNING

    def stop(self, job: str, ends: Mapping[str, Mapping[int, int]] | None = None) -> None:
        """Stop a job; see the port."""
        self._ask({"do": "stop", "job": job, "ends": ends}, 900.0 if ends else ANSWER_SECONDS)

    def describe(self, job: str) -> dict[str, Any]:
        """Return what the driver knows of a job."""
        found: dict[str, Any] = self._ask({"do": "describe", "job": job})
        return found

    def status(self) -> Mapping[str, JobStatus]:
        """Return what is known of each job; see the port."""
        with self._lock:
            return dict(self._jobs)

    def forget(self, job: str) -> None:
        """Know nothing of a job any more: another driver takes it over."""
        with self._lock:
            self._jobs.pop(job, None)

    def close(self) -> None:
        """End the driver with a planned stop of its jobs; see the port."""
        if self.alive and self._ready.done() and self._ready.exception() is None:
            with suppress(OperationFailed):
                self._ask({"do": "close"}, CLOSE_SECONDS)
        self.kill(0.5)

    def kill(self, grace: float = 0.0) -> None:
        """End the driver's processes; its successor finds what was not stopped by then."""
        if self._child is not None:
            self._child.end(grace)
        if self._channel is not None:
            self._channel.close()

    def _ask(self, message: Message, limit: float = ANSWER_SECONDS) -> Any:
        self.wait()
        asked: Future[Message] = Future()
        number = next(self._ids)
        with self._lock:
            self._answers[number] = asked
        if self._channel is None or not self._channel.send({**message, "id": number}):
            raise _gone()
        try:
            answer = asked.result(limit)
        except FutureTimeout:
            raise OperationFailed(
                "driver-slow", f"the driver did not {message['do']} within {limit:.0f} s",
                f"see {self.log}", transient=True,
            ) from None  # fmt: skip
        finally:
            with self._lock:
                self._answers.pop(number, None)
        if "failed" in answer:
            raise _failure(answer["failed"])
        return answer["ok"]

    def _listen(self, channel: Channel, ready: Future[Message]) -> None:
        """Take what the driver says until it is gone; then nobody waits in vain."""
        for message in channel.messages():
            if "id" in message:
                with self._lock:
                    asked = self._answers.get(message["id"])
                if asked is not None:
                    asked.set_result(message)
            elif message["event"] == "ready":
                self.page = message["ui"] or ""
                ready.set_result(message)
            elif message["event"] == "failed":
                ready.set_exception(_failure(message))
            else:
                self._noted(message)
        gone = OperationFailed(
            "driver-gone", "Spark's driver ended", f"see {self.log}", transient=True
        )
        if not ready.done():
            ready.set_exception(gone)
        with self._lock:
            waiting = list(self._answers.values())
            for name, known in self._jobs.items():
                if known.state in (JobState.RUNNING, JobState.STARTING):
                    self._jobs[name] = replace(known, state=JobState.FAILED, error=gone.message)
        for asked in waiting:
            if not asked.done():
                asked.set_exception(gone)

    def _noted(self, message: Message) -> None:
        """Keep what an event tells of a job."""
        name = message["job"]
        with self._lock:
            known = self._jobs.get(name, JobStatus(JobState.STARTING))
            if message["event"] == "progress":
                self._jobs[name] = replace(known, progress=progress_of(message["progress"]))
                return
            known = replace(known, state=JobState(message["state"]))
            if "mode" in message:
                known = replace(
                    known,
                    mode=Mode(message["mode"]),
                    reasons=tuple(message["reasons"]),
                    run=message["run"],
                )
            if "error" in message:
                known = replace(known, error=message["error"], hint=message["hint"],
                                transient=message["transient"])  # fmt: skip
            self._jobs[name] = known

    def _note_failure(self, name: str, failure: OperationFailed) -> None:
        with self._lock:
            known = self._jobs.get(name, JobStatus(JobState.FAILED))
            self._jobs[name] = replace(
                known,
                state=JobState.FAILED,
                error=failure.message,
                hint=failure.hint,
                transient=failure.transient,
            )


def _failure(document: Mapping[str, Any]) -> OperationFailed:
    return OperationFailed(
        document["code"], document["error"], document["hint"], transient=document["transient"]
    )


def _gone() -> OperationFailed:
    return OperationFailed("driver-gone", "Spark's driver ended", transient=True)
