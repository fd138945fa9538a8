"""Threads behind the port `Engine`: each job is a plain Python function, over any log."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

from millrace.errors import OperationFailed
from millrace.model import Format, Job, Mode, Promise
from millrace.model.status import JobFacts
from millrace.ports import BrokerPlugin, EngineOrder, JobOrder, JobState, JobStatus, Log
from millrace.ports.plugins import BROKERS, installed

from millrace_shelf.batch import Maker
from millrace_shelf.code import function_of
from millrace_shelf.run import Run

_STOP_SECONDS: Final = 60.0
_DRAIN_SECONDS: Final = 600.0


class ThreadsEngine:
    """See the port. What it runs ends with the process that it is in."""

    def __init__(self, order: EngineOrder) -> None:
        self._place = order.place
        self._runs: dict[str, Run] = {}
        self._lock = threading.Lock()

    def examine(self, orders: Sequence[JobOrder]) -> Mapping[str, JobFacts]:
        """Find out whether jobs can run; see the port."""
        for order in orders:
            _maker(order)
        facts = JobFacts(Mode.MICRO_BATCH, ("plain Python works batch by batch",), stateful=False)
        return {order.job.name: facts for order in orders}

    def start(self, order: JobOrder) -> None:
        """Run a job; see the port."""
        with self._lock:
            known = self._runs.get(order.job.name)
            if known is not None and known.lives:
                return
            run = Run(order, _maker(order), _logs(order), self._say)
            run.begin()
            self._runs[order.job.name] = run

    def stop(self, job: str, ends: Mapping[str, Mapping[int, int]] | None = None) -> None:
        """Stop a job; see the port."""
        with self._lock:
            run = self._runs.get(job)
        if run is not None and run.status.state is not JobState.STOPPED:
            run.stop(ends, _STOP_SECONDS if ends is None else _DRAIN_SECONDS)

    def status(self) -> Mapping[str, JobStatus]:
        """Return what is known of each job; see the port."""
        return {name: run.status for name, run in dict(self._runs).items()}

    def close(self) -> None:
        """Stop every job; see the port."""
        for name, run in dict(self._runs).items():
            if run.lives:
                self.stop(name)

    def kill(self, grace: float = 0.0) -> None:
        """End every job, those that did not stop within `grace`; see the port."""
        until = time.monotonic() + grace
        for run in dict(self._runs).values():
            if run.lives and grace > 0:
                run.wait(until - time.monotonic())
            run.kill()

    def _say(self, line: str) -> None:
        self._place.mkdir(parents=True, exist_ok=True)
        with (self._place / "driver.log").open("a", encoding="utf-8") as log:
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}\n")


def _maker(order: JobOrder) -> Maker:
    """What works on a job's records; raises for what this engine can't do, with the way out."""
    job, streams = order.job, order.pipeline.streams
    for wrong, hint in _limits(order, job):
        raise OperationFailed("not-in-threads", f"job {job.name} {wrong}", hint)
    function = function_of(job.name, job.map or "", order.code)
    return Maker(f"{order.pipeline.name}/{job.name}", job, function, streams[job.writes[0]])


def _limits(order: JobOrder, job: Job) -> list[tuple[str, str]]:
    """What of a job is beyond this engine, with what to do about each."""
    streams = [order.pipeline.streams[name] for name in (*job.reads, *job.writes)]
    other = "write map: module:function, or let another engine run it"
    found = {
        (f"is a {job.kind} job", other): job.kind != "map",
        ("has windows", other): job.window is not None,
        ("goes by the clock", other): job.every is not None,
        ("reads a table", other): any(port.table for port in job.inputs),
        ("is fused with others", "leave out transient: true"): len(order.jobs) > 1,
        (f"has {len(job.writes)} outputs", "give it one, and others jobs of their own"): (
            len(job.writes) != 1
        ),
        (f"asks for mode: {job.mode}", "leave it out"): (
            job.mode not in (Mode.AUTO, Mode.MICRO_BATCH)
        ),
        ("promises no duplicates", "leave out promise"): (
            Promise.NO_DUPLICATES in (job.promise, *(stream.promise for stream in streams))
        ),
        ("has streams that are not JSON", "write format: json"): any(
            stream.format is not Format.JSON for stream in streams
        ),
    }
    return [told for told, wrong in found.items() if wrong]


def _logs(order: JobOrder) -> dict[str, Log]:
    """The logs of a job's streams, and of those for what it can't use; each broker's once."""
    streams, made, found = order.pipeline.streams, {}, {}
    letters = [streams[name].dead_letters for name in order.job.reads]
    for name in (*order.job.reads, *order.job.writes, *(it for it in letters if it is not None)):
        site = streams[name].site or ""
        if site not in made:
            made[site] = _log(order, site)
        found[name] = made[site]
    return found


def _log(order: JobOrder, site: str) -> Log:
    broker = order.pipeline.sites[site].broker
    kind = broker.kind if broker is not None else ""
    plugin: BrokerPlugin = installed().load(BROKERS, kind)
    if not plugin.keeps:
        raise OperationFailed(
            "not-in-threads",
            f"job {order.job.name} has streams of {kind}, which keeps no records",
            "bridge them to a broker that does",
        )
    return plugin.log(order.writers.get(site) or order.brokers[site])


def engine_of(order: EngineOrder) -> ThreadsEngine:
    """Return an engine of a site; raises for what it does not know."""
    for name in (*(["address"] if order.address else []), *order.options):
        raise OperationFailed(
            "bad-setting",
            f"sites.{order.site}.engine: threads knows no {name!r}",
            "leave it out",
        )
    return ThreadsEngine(order)
