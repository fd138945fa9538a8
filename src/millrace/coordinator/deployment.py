"""What a pipeline shall be like at this moment, in the middle of a change or after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from millrace.coordinator.files import Files
from millrace.ports.link import JobGoal, PipelineGoal, Positions, Thing


@dataclass(frozen=True, slots=True)
class Placed:
    """A query at a site, and what is known of how far it was when it stopped last."""

    site: str
    goal: JobGoal
    #: By stream, and when that was committed, in milliseconds since the epoch.
    reached: Positions = field(default_factory=dict)
    at: int | None = None
    #: Whether it is over: its inputs have ended, or its time is up.
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Deployment:
    """Queries, streams and brokers, each as a file of some number has it.

    In the middle of a change there may be two streams of one name, at two places.
    """

    jobs: Mapping[str, Placed] = field(default_factory=dict)
    streams: frozenset[Thing] = frozenset()
    #: Streams that are being removed.
    dropped: frozenset[Thing] = frozenset()
    #: Brokers, by the names of their sites.
    brokers: frozenset[Thing] = frozenset()
    #: The last generation of a start that was ordered.
    generation: int = 0
    #: The number of the last folder of each query, also of those that are gone.
    folders: Mapping[str, int] = field(default_factory=dict)
    #: Jobs that are inside a query now, as they were when they ran by themselves last; and queries
    #: that are gone, of which jobs stay.
    inside: Mapping[str, Placed] = field(default_factory=dict)

    def with_job(self, name: str, placed: Placed) -> Deployment:
        """Return it with a query as it shall be now."""
        folders = {**self.folders, name: max(placed.goal.folder, self.folders.get(name, 0))}
        generation = max(self.generation, placed.goal.generation)
        jobs = {**self.jobs, name: placed}
        inside = _but(self.inside, name)
        return replace(self, jobs=jobs, generation=generation, folders=folders, inside=inside)

    def without_job(self, name: str, *, inside: bool = False) -> Deployment:
        """Return it without a query; one that is `inside` another is not forgotten."""
        kept = {**self.inside, name: self.jobs[name]} if inside else self.inside
        return replace(self, jobs=_but(self.jobs, name), inside=kept)

    def sites(self) -> frozenset[str]:
        """Return the sites that have something to do, but for those of streams alone."""
        return frozenset({name for name, _ in self.brokers} | {p.site for p in self.jobs.values()})

    def goals(self, files: Files) -> dict[str, PipelineGoal]:
        """Return what each site that has something to do shall be."""
        site = files.site
        sites = self.sites() | {site(thing) for thing in self.streams | self.dropped}
        return {
            name: _with_files(
                PipelineGoal(
                    serving=max((n for broker, n in self.brokers if broker == name), default=None),
                    streams=frozenset(thing for thing in self.streams if site(thing) == name),
                    dropped=frozenset(thing for thing in self.dropped if site(thing) == name),
                    jobs={job: p.goal for job, p in self.jobs.items() if p.site == name},
                ),
                files,
            )
            for name in sorted(sites)
        }


def _but(jobs: Mapping[str, Placed], name: str) -> dict[str, Placed]:
    return {other: placed for other, placed in jobs.items() if other != name}


def _with_files(goal: PipelineGoal, files: Files) -> PipelineGoal:
    numbers = {number for _, number in goal.streams | goal.dropped}
    numbers |= {job.revision for job in goal.jobs.values()}
    numbers |= set() if goal.serving is None else {goal.serving}
    return with_files(goal, files, numbers)


def with_files(goal: PipelineGoal, files: Files, numbers: Iterable[int]) -> PipelineGoal:
    """Return a goal with these files too, each with its code."""
    found = {**goal.revisions, **{number: files.complete(number) for number in sorted(numbers)}}
    code = {number: digest for number in found if (digest := files.code(number)) is not None}
    return replace(goal, revisions=found, code=code)
