"""A Flink that is already there, behind the port `Engine`: reached by its REST API alone.

Flink's id of each run is chosen here and kept in the job's folder before the run is asked for, so
that whoever comes later finds a run that goes on, and leaves it alone.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from millrace.engines.flink import kept as keeping
from millrace.engines.flink.calls import Calls, address_of
from millrace.engines.flink.ends import Ends
from millrace.engines.flink.failures import duplicate
from millrace.engines.flink.kept import Kept
from millrace.engines.flink.looks import Looks
from millrace.engines.flink.program import Program, program_of
from millrace.engines.flink.rest import OVER, FlinkRest, SeenJob
from millrace.engines.flink.runs import Run, Runs
from millrace.engines.flink.states import REASONS, begun, ended_by_us, short_of_slots
from millrace.engines.flink.watch import Watch
from millrace.errors import OperationFailed
from millrace.model.status import JobFacts
from millrace.ports import JobOrder, JobState, JobStatus

#: How long a job may take until all of its tasks run, and how long it waits for free slots.
START_SECONDS: Final = 90.0
SLOT_SECONDS: Final = 10.0
#: How many jobs are stopped side by side.
_SIDE_BY_SIDE: Final = 8
_INTERVAL: Final = "execution.checkpointing.interval"
#: By default Flink starts a job again whose savepoint fails, though it works as it should.
_TOLERABLE: Final = "execution.checkpointing.tolerable-failed-checkpoints"
_RETENTION: Final = "execution.checkpointing.externalized-checkpoint-retention"


class FlinkEngine:
    """Runs jars on a cluster by its address; any thread may call.

    `savepoints` among the options is the folder for savepoints as the cluster names it, where the
    jobs' own folders can't be seen from there.
    """

    #: Whether the cluster sees the jobs' folders, and its checkpoints are kept there.
    local = False

    def __init__(self, address: str, options: Mapping[str, str] | None = None) -> None:
        given = dict(options or {})
        self.rest = FlinkRest(Calls(address_of(address, given)))
        self._savepoints = given.get("savepoints", "").rstrip("/")
        self.runs = Runs(lambda: self.rest.url)
        self._looks = Looks(lambda: self.rest, self.runs)
        self._ends = Ends(lambda: self.rest, self.runs, self._target)
        self._watch = Watch(self._look, "flink")
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)

    @property
    def alive(self) -> bool:
        """Whether the cluster answered last."""
        return self._looks.answered

    @property
    def page(self) -> str:
        """Flink's own page."""
        return f"{self.rest.url}/"

    def launch(self) -> None:
        """Begin to look at the cluster; nothing is started."""
        self._watch.start()

    def wait(self) -> None:
        """Return if the cluster answers; raises with the way out where it does not."""
        self.launch()
        self.rest.slots()

    def examine(self, orders: Sequence[JobOrder]) -> Mapping[str, JobFacts]:
        """Look whether the programs are there; see the port."""
        return {order.job.name: _facts(order) for order in orders}

    def start(self, order: JobOrder) -> None:
        """Run the program, from its last snapshot where it has one; see the port."""
        program = program_of(order)
        with self._locks[order.job.name]:
            known = self.runs.get(order.job.name)
            if known is not None and known.lives and known.order.place == order.place:
                return
            self.launch()
            if not self.alive:
                self.wait()
            kept = keeping.read_kept(order.place)
            jobs = self._looks.jobs()
            found = _found(order, program, kept, jobs)
            if found is not None and self._goes_on(found):
                run = self._adopted(order, found, kept)
                if kept.digest in ("", program.digest):
                    return
                self._ends.stop(run)  # its program is another one now
                kept = keeping.read_kept(order.place)
            self._begin(order, program, kept, jobs)

    def _goes_on(self, found: SeenJob) -> bool:
        """Whether a run that was there a moment ago is there still."""
        state = self.rest.state(found.id)
        return state is not None and state not in OVER

    def _adopted(self, order: JobOrder, found: SeenJob, kept: Kept) -> Run:
        """A run that goes on already, whoever started it."""
        keeping.write_kept(order.place, replace(kept, run=found.id, taken=True))
        status = replace(begun(found.id), state=JobState.RUNNING)
        run = Run(order, found.id, time.monotonic(), status, kept.begin, ran=True)
        self.runs.add(run)
        return run

    def _begin(
        self, order: JobOrder, program: Program, kept: Kept, jobs: Mapping[str, SeenJob]
    ) -> None:
        begin = self._snapshot(order.place, kept, jobs)
        again = kept.run and not kept.taken and kept.run not in jobs
        now = Kept(kept.run if again else uuid.uuid4().hex, False, program.digest, begin)  # noqa: FBT003
        settings = self._settings(order)
        keeping.write_kept(order.place, now)
        location = keeping.located(order.place, begin)
        self._taken(
            lambda: self.rest.run(program, now.run, _name(order, program), settings, location), now
        )
        keeping.write_kept(order.place, replace(now, taken=True))
        run = Run(order, now.run, time.monotonic(), begun(now.run), begin)
        self.runs.add(run)
        self._started(run)
        keeping.tidy(order.place, begin, now.run)

    def _settings(self, order: JobOrder) -> dict[str, str]:
        """What Millrace tells Flink for a job; its program may tell it more."""
        settings = {_RETENTION: "RETAIN_ON_CANCELLATION"}
        if _TOLERABLE not in (order.job.options or {}):
            settings[_TOLERABLE] = "100"
        if self.local:
            settings["execution.checkpointing.dir"] = keeping.target(order.place, "checkpoints")
            if _INTERVAL not in (order.job.options or {}):
                settings[_INTERVAL] = f"{int(order.job.checkpoint.every.seconds * 1000)} ms"
        return settings

    def _snapshot(self, place: Path, kept: Kept, jobs: Mapping[str, SeenJob]) -> str:
        """What a job goes on from: the last that its last run has left, or what that began with."""
        if found := keeping.newest(place, kept.run):
            return found
        if kept.run in jobs and (left := self.rest.snapshot(kept.run)) is not None:
            return keeping.named(place, left.path)
        return kept.begin

    def _taken(self, run: Callable[[], None], now: Kept) -> None:
        """Ask for a run; an answer that was lost is made up for by looking."""
        try:
            run()
        except OperationFailed as failure:
            if duplicate(failure):
                return
            if failure.code == "unreachable":
                with suppress(OperationFailed):
                    if self.rest.state(now.run) is not None:
                        return
            raise

    def _started(self, run: Run) -> None:
        """Wait until all tasks of a run are running; where they don't, it is ended."""
        began = time.monotonic()
        with self._watch.hurried():
            status = self.runs.wait(run, began + SLOT_SECONDS)
            waits = ""
            if status.state is JobState.STARTING:
                with suppress(OperationFailed):  # it may be slow, too
                    waits = short_of_slots(run.job, self.rest.jobs().get(run.id), self.rest.slots())
                if not waits:
                    status = self.runs.wait(run, began + START_SECONDS)
        if status.state in (JobState.RUNNING, JobState.ENDED):
            return
        if status.state is JobState.STARTING:
            self._ends.cancel(run)
            failure = OperationFailed(
                "no-slots" if waits else "not-started",
                waits or status.error or f"job {run.job} did not start in {START_SECONDS:.0f} s",
                "give Flink more TaskManagers or taskmanager.numberOfTaskSlots, or stop other jobs"
                if waits
                else status.hint or f"see {self.page}",
                transient=True,
            )
            self.runs.settle(run, ended_by_us(run.status, failure.message))
            raise failure
        raise OperationFailed("job-failed", status.error, status.hint, transient=status.transient)

    def stop(self, job: str, ends: Mapping[str, Mapping[int, int]] | None = None) -> None:  # noqa: ARG002
        """Stop a job with a savepoint; how far it read only its program knows. See the port."""
        with self._locks[job]:
            run = self.runs.get(job)
            if run is not None:
                self._ends.stop(run)

    def _target(self, order: JobOrder, run: str) -> str:
        """Where the savepoints of a run go."""
        if self._savepoints:
            return f"{self._savepoints}/{order.pipeline.name}/{order.job.name}"
        return keeping.target(order.place, "savepoints", run)

    def status(self) -> Mapping[str, JobStatus]:
        """Return what was last seen; see the port."""
        return self.runs.statuses()

    def forget(self, job: str) -> None:
        """Know nothing of a job any more; it goes on."""
        self.runs.forget(job)

    def close(self) -> None:
        """Stop every job with a savepoint; one that can't be goes on, and is found again."""
        living = [run.job for run in self.runs.all() if run.lives]
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            list(pool.map(self._closed, living))
        self._watch.end()

    def _closed(self, job: str) -> None:
        try:
            self.stop(job)
        except OperationFailed as failure:  # its status tells it
            run = self.runs.get(job)
            if run is not None:
                told = replace(run.status, error=failure.message, hint=failure.hint)
                self.runs.settle(run, told)

    def kill(self, grace: float = 0.0) -> None:
        """Cancel every job, without a savepoint; see the port."""
        living = [run for run in self.runs.all() if run.lives]
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            list(pool.map(lambda run: self._killed(run, grace), living))
        self._watch.end()

    def _killed(self, run: Run, grace: float) -> None:
        with suppress(OperationFailed):
            self._ends.cancel(run, grace)
            self.runs.settle(run, ended_by_us(run.status, f"job {run.job} was cancelled"))

    def _look(self) -> None:
        self._looks.look()


def _facts(order: JobOrder) -> JobFacts:
    program_of(order)
    schemas = {name: order.pipeline.streams[name].schema or {} for name in order.job.writes}
    return JobFacts(reasons=REASONS, schemas=schemas)


def _name(order: JobOrder, program: Program) -> str:
    """A job's name in Flink, unless its program gives it another one.

    Another one's job of the same name is not taken for ours: it would have to be the same program.
    """
    folder = order.place.name
    return f"millrace/{order.pipeline.name}/{order.job.name}/{folder}/{program.digest[:8]}"


def _found(
    order: JobOrder, program: Program, kept: Kept, jobs: Mapping[str, SeenJob]
) -> SeenJob | None:
    """The job's run that goes on, by its id or, where that is not known, by its name."""
    known = jobs.get(kept.run)
    if known is not None or kept.run:
        return None if known is None or known.over else known
    name = _name(order, program)
    alike = (job for job in jobs.values() if job.name == name and not job.over)
    return next(alike, None)
