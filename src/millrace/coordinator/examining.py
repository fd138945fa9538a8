"""What engines are asked about a file before anything is changed, and what they answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from millrace.coordinator.deployment import Deployment, with_files
from millrace.coordinator.files import Files
from millrace.coordinator.phases import Reports
from millrace.model.job import Job
from millrace.model.status import Facts, JobFacts
from millrace.model.stream import Format, Stream
from millrace.ports.link import PipelineGoal


@dataclass(frozen=True, slots=True)
class Examination:
    """A file that is looked at, and what is known of its jobs so far."""

    files: Files
    number: int

    @property
    def facts(self) -> Facts:
        """What is known of its jobs."""
        return self.files.facts(self.number)

    @property
    def unknown(self) -> list[Job]:
        """The queries of which nothing is known yet."""
        queries = self.files.queries(self.number).jobs.values()
        return [query for query in queries if any(n not in self.facts for n in _names(query))]

    def asked(self) -> dict[str, frozenset[str]]:
        """Return by site the queries that can be looked at now.

        One that reads what another writes comes after it, where the file does not say the columns.
        """
        file = self.files[self.number]
        writers = file.writers()
        told = {name for name, stream in file.streams.items() if _says_columns(stream)}
        found: dict[str, set[str]] = {}
        for query in self.unknown:
            own, open_ = _names(query), [name for name in query.reads if name not in told]
            above = {job.name for stream in open_ for job in writers.get(stream, ())}
            if all(name in self.facts for name in above - own):
                found.setdefault(query.site or "", set()).add(query.name)
        return {site: frozenset(names) for site, names in found.items()}

    def goals(self, before: Mapping[str, PipelineGoal]) -> dict[str, PipelineGoal]:
        """Return goals of sites with what is asked of them."""
        found = dict(before)
        for site, queries in self.asked().items():
            goal = found.get(site, PipelineGoal())
            goal = with_files(goal, self.files, {self.number})
            found[site] = replace(goal, examined=self.number, queries=queries)
        return found

    def answered(self, reports: Reports) -> Examination:
        """Return it with what sites found out."""
        facts = dict(self.facts)
        for report in reports.values():
            if report.examined == self.number:
                facts |= report.facts
        if facts == self.facts:
            return self
        return replace(self, files=self.files.with_facts(self.number, facts))

    def refused(self, reports: Reports) -> str:
        """Return why a job can't run, if a site said so."""
        reasons = (
            why
            for report in reports.values()
            if report.examined == self.number
            for why in report.refused.values()
        )
        return next(reasons, "")

    def silent(self, reports: Reports) -> str:
        """Return what is waited for."""
        sites = sorted(self.asked())
        away = [site for site in sites if site not in reports]
        if away:
            return f"site {away[0]} has not been heard of"
        return f"site {sites[0]} did not say in time how its jobs would run"


def known_already(files: Files, number: int, deployment: Deployment) -> Files:
    """Return files with what is known of a new one: its queries that are as they were."""
    found: dict[str, JobFacts] = {}
    for name, query in files.queries(number).jobs.items():
        placed = deployment.jobs.get(name)
        if placed is None:
            continue
        before = placed.goal.revision
        if files.queries(before).jobs.get(name) == query and _same(files, before, number, query):
            known = files.facts(before)
            found |= {one: known[one] for one in _names(query) if one in known}
    return files.with_facts(number, found)


def _says_columns(stream: Stream) -> bool:
    """Whether a file says the columns of a stream, or it has none."""
    return stream.schema is not None or stream.format is Format.RAW


def _same(files: Files, one: int, other: int, query: Job) -> bool:
    """Whether the streams of a query are the same in two files."""
    names = {
        stream
        for job in (query, *query.members)
        for stream in (*job.reads, *job.writes)
        if stream in files[other].streams
    }
    before, after = files[one].streams, files[other].streams
    return all(before.get(name) == after[name] for name in names)


def _names(query: Job) -> set[str]:
    """The jobs of a query."""
    return {one.name for one in query.members} or {query.name}
