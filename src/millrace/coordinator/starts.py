"""Where queries start when a file was changed: in the folder that they had, or in a new one."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.agent.continues import Continuing
from millrace.coordinator.deployment import Deployment, Placed
from millrace.coordinator.files import Files
from millrace.coordinator.observe import observed
from millrace.coordinator.phases import Start
from millrace.engines.spark.checkpoint import Committed
from millrace.model.places import World
from millrace.model.step import Step


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a pipeline: the file that is wanted, and what was there before it began."""

    files: Files
    wanted: int
    #: Queries go on from it, or go back to it where the change is undone.
    former: Deployment
    undone: bool = False

    def start(self, now: Deployment, step: Step) -> Start:
        """Return where a query starts as things are now."""
        name = step.name
        job = self.files.queries(self.wanted).jobs[name]
        site, placed = job.site or "", now.jobs.get(name) or self.former.jobs.get(name)
        if (back := self._back(step, placed)) is not None:
            return back
        change = self._continuing(now)
        fresh = max(now.folders.get(name, 0), self.former.folders.get(name, 0)) + 1
        if placed is not None and change.keeps(job, step):
            if placed.site == site:
                return Start(site, placed.goal.folder, placed.goal.begins, placed.goal.since)
            if step.stateful is not False:
                return Start(site, fresh, {}, None, (placed.site, placed.goal.folder))
        begins = change.inherited(job)
        return Start(site, fresh, begins.positions, begins.at)

    def _back(self, step: Step, placed: Placed | None) -> Start | None:
        """The folder that a query had before a change that is undone.

        What it got done in another one meanwhile is known by its positions; with state it is done
        again.
        """
        former = self.former.jobs.get(step.name)
        if former is None or placed is None or not self.undone:
            return None
        if placed.goal.folder != former.goal.folder and placed.reached and step.stateful is False:
            return None
        return Start(former.site, former.goal.folder, former.goal.begins, former.goal.since)

    def _continuing(self, now: Deployment) -> Continuing:
        before = observed(self.former, self.files, self.wanted).pipeline

        def reached(job: str) -> Committed:
            return self._committed(now.jobs.get(job) or self.former.jobs.get(job))

        after = World(self.files.queries(self.wanted))
        return Continuing(World(before), after, reached)

    def _committed(self, placed: Placed | None) -> Committed:
        """How far a query was, by the addresses of its streams."""
        if placed is None:
            return Committed()
        streams = self.files[placed.goal.revision].streams
        found = {address: dict(parts) for address, parts in placed.goal.begins.items()}
        for stream, parts in placed.reached.items():
            if stream in streams:
                found[streams[stream].address] = dict(parts)
        return Committed(-1, placed.at or placed.goal.since, found, found)
