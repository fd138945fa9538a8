"""Where queries start when a file was changed: in the folder that they had, or in a new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millrace.agent.continues import Continuing
from millrace.coordinator.deployment import Deployment, Placed
from millrace.coordinator.files import Files
from millrace.coordinator.observe import observed
from millrace.coordinator.operation import Operation, OperationState
from millrace.coordinator.phases import Reports, Start, makes_log
from millrace.engines.spark.checkpoint import Committed
from millrace.model.job import Job, Mode
from millrace.model.job import Start as First
from millrace.model.places import Key, World
from millrace.model.policy import CheckpointAt
from millrace.model.step import Step
from millrace.model.stream import UNKEPT
from millrace.ports.link import Positions


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
    #: By stream of the wanted file that was there before: where it ended as the change began.
    ends: Positions = field(default_factory=dict)
    #: Logs that are made in this change: no position from before means anything there.
    anew: frozenset[Key] = frozenset()
    reports: Reports = field(default_factory=dict)
    #: What was there and what is wanted: worked out once for all queries of the change.
    _worlds: list[World] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def of(cls, operation: Operation, files: Files, former: Deployment, reports: Reports) -> Change:
        """Return the change that an operation is, or the way back that it is on."""
        undone = operation.state is OperationState.UNDOING
        made = {
            files.key((step.name, operation.target))
            for step in operation.plan.steps
            if makes_log(step)
        }
        made |= {files.key((name, operation.wanted)) for name in operation.remade}
        return cls(
            files,
            operation.target,
            former,
            undone,
            operation.lost,
            {**operation.ends, **operation.left},
            frozenset(made),
            reports,
        )

    def start(self, now: Deployment, step: Step) -> Start:
        """Return where a query starts as things are now."""
        name = step.name
        job = self.files.queries(self.wanted).jobs[name]
        site, placed = job.site or "", self._placed(now, name)
        anew = self._anew(job)
        if not anew and (back := self._back(step, placed)) is not None:
            return back
        change = self._continuing(now)
        fresh = max(now.folders.get(name, 0), self.former.folders.get(name, 0)) + 1
        goes_on = not anew and placed is not None and self._fits(name, placed)
        if placed is not None and goes_on and change.keeps(job, step):
            vouched = placed.site in self.lost
            if placed.site == site or self._shared(job, placed):
                begun = placed.goal.begins
                return Start(
                    site, placed.goal.folder, begun, placed.goal.since, None, vouched=vouched
                )
            brings = step.stateful is not False or bool(self._received(job))
            if brings and not vouched:
                return Start(site, fresh, {}, None, (placed.site, placed.goal.folder))
        known = change.inherited(job)
        gone = anew if self._stays(job, placed) else anew | self._received(job)
        begins = {topic: at for topic, at in known.positions.items() if topic not in gone}
        joined = self._joined(change, job, step)
        return Start(site, fresh, {**begins, **joined}, known.at if begins else None)

    def _received(self, job: Job) -> set[str]:
        """The addresses of streams that nobody keeps: a query has a spool for what came of them.

        Positions in it mean nothing to another query, or where the spool is not.
        """
        streams = self.files[self.wanted].streams
        found = (streams[name] for name in job.follows if name in streams)
        return {stream.address for stream in found if stream.transport in UNKEPT}

    @staticmethod
    def _stays(job: Job, placed: Placed | None) -> bool:
        """Whether a query finds what was received for it: it has run before, and here."""
        return placed is not None and placed.site == (job.site or "")

    def _anew(self, job: Job) -> set[str]:
        """The addresses of the streams that a query reads in a log that is made in this change."""
        key, streams = self.files.key, self.files[self.wanted].streams
        made = (name for name in job.follows if key((name, self.wanted)) in self.anew)
        return {streams[name].address for name in made}

    def _joined(self, change: Continuing, job: Job, step: Step) -> dict[str, Mapping[int, int]]:
        """Where a query begins in streams that were there, and that nobody of its jobs read.

        A job that comes out of a query, or into one, is not new to what was read for it there.
        Where nobody knows how far that was, it begins at the first record: nothing is left out.
        """
        streams, found = self.files[self.wanted].streams, {}
        queries = [change.query_of(one.name) for one in job.members or (job,)]
        before = [query.follows for query in queries if query is not None]
        read = {change.before.stream_key(name) for names in before for name in names}
        for port in job.inputs:
            name = port.stream
            if port.table or name not in step.joins or name not in self.ends:
                continue
            if port.begin is not First.EARLIEST and change.after.stream_key(name) not in read:
                found[streams[name].address] = self.ends[name]
        return found

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
            return self._committed(job, self._placed(now, job))

        return Continuing(self._worlds[0], self._worlds[1], reached)

    def _committed(self, query: str, placed: Placed | None) -> Committed:
        """How far a query was, by the addresses of its streams.

        One that still runs is at least as far as its site told last.
        """
        if placed is None:
            return Committed()
        reached, at = placed.reached, placed.at
        report = self.reports.get(placed.site)
        told = report.jobs.get(query) if report is not None else None
        current = told is not None and told.generation == placed.goal.generation
        if placed.goal.running and told is not None and current and told.progress.positions:
            reached, at = told.progress.positions, int(told.progress.at * 1000)
        streams = self.files[placed.goal.revision].streams
        found = {address: dict(parts) for address, parts in placed.goal.begins.items()}
        for stream, parts in reached.items():
            if stream in streams:
                found[streams[stream].address] = dict(parts)
        return Committed(-1, at or placed.goal.since, found, found)
