"""The folders in which jobs keep their progress, each with a number: where they go on."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from millrace.agent.brokers import site_place
from millrace.agent.continues import Continuing, going_inside, refuse_unread
from millrace.agent.state import Applied
from millrace.engines.spark.checkpoint import Committed, committed, fits_real_time, write_start
from millrace.machine import Folders
from millrace.model.job import Mode
from millrace.model.pipeline import Pipeline
from millrace.model.status import Facts, JobFacts
from millrace.model.step import Kind, Plan, Step
from millrace.ports import Log

#: The number of a folder that no job has: folders are numbered from 1 on.
_NOWHERE = 0


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of what was applied and of what is wanted."""

    folders: Folders
    applied: Applied
    wanted: Pipeline

    def new(self, job: str, number: int) -> Path:
        """Return the folder of a job by its number."""
        return self._folder(self.wanted, job, number)

    def old(self, job: str) -> Path | None:
        """Return the folder that a job had, if it had one."""
        number = self.applied.places.get(job)
        if number is None or job not in self.applied.pipeline.jobs:
            return None
        return self._folder(self.applied.pipeline, job, number)

    def _folder(self, pipeline: Pipeline, job: str, number: int) -> Path:
        site = pipeline.jobs[job].site or ""
        return site_place(self.folders, self.wanted.name, site) / "jobs" / job / str(number)

    def examined(self) -> dict[str, Path]:
        """Return where each query is looked at before it is known where it will run.

        What leaves a query may begin at positions that are not written yet: not where it will run.
        One that can't go on in its folder is not held against the state that is there.
        """
        known, before = self.applied.places, self.applied.pipeline.jobs
        change = self._change()
        found = {}
        for name, job in change.after.pipeline.jobs.items():
            number = known.get(name, int(name not in before))
            goes_on = name not in known or change.keeps(job, None)
            found[name] = self.new(name, number if goes_on else _NOWHERE)
        return found

    def _change(self) -> Continuing:
        return Continuing.of(self.applied.pipeline, self.wanted, self.reached)

    def reached(self, job: str) -> Committed:
        """Return how far a job was in the folder that it had."""
        place = self.old(job)
        return committed(place / "checkpoint") if place is not None else Committed()

    def refuse_unread(self, logs: Mapping[str, Log], topics: Mapping[str, frozenset[str]]) -> None:
        """Raise where a stream goes inside a query and holds what its readers have not read.

        `logs` and `topics`, those that are there, are by site.
        """
        for name, readers in going_inside(self.applied.pipeline, self.wanted).items():
            stream = self.applied.pipeline.streams[name]
            site, topic = stream.site or "", stream.address
            if topic in topics.get(site, ()):
                ends = logs[site].ends(topic)
                for job in readers:
                    refuse_unread(name, job, self.reached(job).positions.get(topic, {}), ends)

    def settled(self, plan: Plan, facts: Facts) -> dict[str, int]:
        """Return the number of each job's folder: a new one where it can't go on in the old one.

        In a new one it finds where to begin. Jobs inside a query keep the number of the folder
        that they had, for when they leave it.
        """
        change, steps = self._change(), _steps(plan)
        known = self.applied.places
        numbers = {name: number for name, number in known.items() if name in self.wanted.jobs}
        for name, job in change.after.pipeline.jobs.items():
            number = known.get(name, 0)
            stays = self.old(name) == self.new(name, number) and self._fits(name, facts)
            if stays and change.keeps(job, steps.get(name)):
                continue
            numbers[name] = number + 1
            place = self.new(name, number + 1)
            if place.exists():  # of a job that was removed once, or of a start that was refused
                shutil.rmtree(place)
            start = change.inherited(job)
            if start.positions:
                write_start(place, start)
        return numbers

    def _fits(self, name: str, facts: Facts) -> bool:
        """Whether a job's mode can go on in its folder; one with state is left to its engine."""
        place, known = self.old(name), facts.get(name, JobFacts())
        if place is None or known.mode is not Mode.REAL_TIME or known.stateful is not False:
            return True
        return fits_real_time(place / "checkpoint")


def _steps(plan: Plan) -> dict[str, Step]:
    """The dearest step of each job."""
    steps = [step for step in plan.steps if step.kind is Kind.JOB]
    return {step.name: step for step in sorted(steps, key=lambda step: step.impact or 0)}
