"""Where queries start when a file was changed: in the folder that they had, or in a new one."""

from __future__ import annotations

from dataclasses import dataclass, field

from millrace.agent.continues import Continuing
from millrace.coordinator.deployment import Deployment, Placed
from millrace.coordinator.files import Files
from millrace.coordinator.observe import observed
from millrace.coordinator.phases import Start
from millrace.engines.spark.checkpoint import Committed
from millrace.model.job import Job, Mode
from millrace.model.places import World
from millrace.model.policy import CheckpointAt
from millrace.model.step import Step


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a pipeline: the file that is wanted, and what was there before it began."""

    files: Files
    wanted: int
    #: Queries go on from it, or go back to it where the change is undone.
    former: Deployment
    undone: bool = False
    #: Sites of which nothing can be had any more.
    lost: frozenset[str] = frozenset()
    #: What was there and what is wanted: worked out once for all queries of the change.
    _worlds: list[World] = field(default_factory=list, repr=False, compare=False)

    def start(self, now: Deployment, step: Step) -> Start:
        """Return where a query starts as things are now."""
        name = step.name
        job = self.files.queries(self.wanted).jobs[name]
        site, placed = job.site or "", self._placed(now, name)
        if (back := self._back(step, placed)) is not None:
            return back
        change = self._continuing(now)
        fresh = max(now.folders.get(name, 0), self.former.folders.get(name, 0)) + 1
        if placed is not None and self._fits(name, placed) and change.keeps(job, step):
            vouched = placed.site in self.lost
            if placed.site == site or self._shared(job, placed):
                begun = placed.goal.begins
                return Start(
                    site, placed.goal.folder, begun, placed.goal.since, None, vouched=vouched
                )
            if step.stateful is not False and not vouched:
                return Start(site, fresh, {}, None, (placed.site, placed.goal.folder))
        begins = change.inherited(job)
        return Start(site, fresh, begins.positions, begins.at)

    def _placed(self, now: Deployment, name: str) -> Placed | None:
        """A query as it is or was last, by itself."""
        before = self.former
        known = (each.get(name) for each in (now.jobs, now.inside, before.jobs, before.inside))
        return next((placed for placed in known if placed is not None), None)

    def _shared(self, job: Job, placed: Placed) -> bool:
        """Whether a query finds its folder wherever it runs."""
        before = self.files.queries(placed.goal.revision).jobs[job.name]
        return {one.checkpoint.place for one in (before, job)} == {CheckpointAt.SHARED}

    def _fits(self, name: str, placed: Placed) -> bool:
        """Whether a query goes on in its folder in the mode that it will have.

        Spark writes the folders of the two modes differently; what it keeps there it finds again.
        """
        before = self.files.facts(placed.goal.revision).get(name)
        after = self.files.facts(self.wanted).get(name)
        if before is None or after is None or after.stateful is not False:
            return True
        return after.mode is not Mode.REAL_TIME or before.mode is Mode.REAL_TIME

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
        if not self._worlds:
            before = observed(self.former, self.files, self.wanted).pipeline
            self._worlds.extend((World(before), World(self.files.queries(self.wanted))))

        def reached(job: str) -> Committed:
            return self._committed(self._placed(now, job))

        return Continuing(self._worlds[0], self._worlds[1], reached)

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
