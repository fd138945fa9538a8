"""Where streams ended as a change began: there begin those who newly read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from millrace.coordinator.deployment import Deployment, Placed, with_files
from millrace.coordinator.files import Files
from millrace.coordinator.phases import PART, Reports, makes_log
from millrace.model.job import Job
from millrace.model.places import Key
from millrace.model.step import Kind, Plan, Step
from millrace.model.stream import UNKEPT
from millrace.ports.link import PipelineGoal, Positions, Thing


@dataclass(frozen=True, slots=True)
class Asked:
    """A stream whose end is asked for, as the deployment has it, and who can say."""

    site: str
    thing: Thing


@dataclass(frozen=True, slots=True)
class Joining:
    """A change from one file to another by a plan, nothing of which is ordered yet.

    Only what was there counts: streams of the file in force that are on a log and stay as they are.
    A stream that is created, or whose log is made anew, is read from its first record.
    """

    files: Files
    before: int
    wanted: int
    plan: Plan
    #: Sites that say nothing any more.
    lost: frozenset[str] = frozenset()

    def asked(self, there: Deployment) -> dict[str, Asked]:
        """Return what must be known first, by the streams' names in the wanted file."""
        jobs = self.files.queries(self.wanted).jobs
        steps = [step for step in self.plan.steps if step.kind is Kind.JOB and step.joins]
        if not steps:
            return {}
        known = self._kept(there)
        found = {}
        for job, joins in ((jobs[step.name], step.joins) for step in steps if step.name in jobs):
            for name in job.follows:
                thing = known.get(self.files.key((name, self.wanted)))
                if name in joins and thing is not None and (site := self._site(thing, job)):
                    found[name] = Asked(site, thing)
        return found

    def _kept(self, there: Deployment) -> dict[Key, Thing]:
        """The streams that are there and stay, by where they really are."""
        files, number = self.files, self.before
        stored = files.queries(number).streams
        logs = (name for name, stream in stored.items() if stream.transport not in UNKEPT)
        in_force = {files.key((name, number)) for name in logs}
        fresh = {files.key((step.name, self.wanted)) for step in self.plan.steps if makes_log(step)}
        placed = {files.key(thing): thing for thing in sorted(there.streams)}
        return {k: thing for k, thing in placed.items() if k in in_force and k not in fresh}

    def _site(self, thing: Thing, reader: Job) -> str | None:
        """The site that says where a stream ends; None where nobody can.

        An attached broker is reached from the reader's site, too.
        """
        site = self.files.site(thing)
        if site not in self.lost:
            return site
        broker = self.files[thing[1]].sites[site].broker
        attached = broker is not None and not broker.managed
        return reader.site if attached and reader.site not in self.lost else None

    def goals(
        self, before: Mapping[str, PipelineGoal], there: Deployment
    ) -> dict[str, PipelineGoal]:
        """Return goals of sites with what is asked of them."""
        found = dict(before)
        for asked in self.asked(there).values():
            goal = with_files(found.get(asked.site, PipelineGoal()), self.files, {asked.thing[1]})
            measured = goal.measured | {asked.thing}
            found[asked.site] = replace(goal, joined=self.wanted, measured=measured)
        return found

    def answered(
        self, asked: Mapping[str, Asked], reports: Reports
    ) -> dict[str, Mapping[int, int]]:
        """Return where streams end, as far as sites have said so for this change."""
        found = {}
        for name, it in asked.items():
            report = reports.get(it.site)
            if report is not None and report.joined == self.wanted and it.thing in report.ends:
                found[name] = report.ends[it.thing]
        return found

    def left(self, step: Step, placed: Placed, ends: Positions, before: Positions) -> Positions:
        """Return where queries stopped in streams that others join, with one more that stopped.

        Who takes over begins there, and not where the stream ended before that: nothing is read
        twice. Of several that leave, the one that read least counts.
        """
        number = placed.goal.revision
        names = (stream.partition(PART)[0] for stream in step.drains)
        reached = {
            self.files.key((name, number)): placed.reached[name]
            for name in names
            if name in placed.reached
        }
        found = dict(before)
        for name in ends:
            at = reached.get(self.files.key((name, self.wanted)))
            if at is not None and name in before:
                parts = at.keys() | before[name].keys()
                at = {part: min(at.get(part, 0), before[name].get(part, 0)) for part in parts}
            if at is not None:
                found[name] = at
        return found


def not_told(asked: Asked, reports: Reports) -> str:
    """Return what is told where nobody said in time where a stream ends."""
    name, report = asked.thing[0], reports.get(asked.site)
    if report is None:
        return f"where stream {name} ends is not known: site {asked.site} has not been heard of"
    error = report.errors.get(name, "it did not say so in time")
    return f"where stream {name} ends is not known to site {asked.site}: {error}"
