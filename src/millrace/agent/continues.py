"""What jobs go on from when a file was changed: their own folders, or positions of other ones.

Decided from what was applied and what is wanted; how far folders and logs are is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from millrace.engines.spark.checkpoint import Committed, Positions
from millrace.errors import OperationFailed
from millrace.model.impact import Impact
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.places import Key, World
from millrace.model.step import Step
from millrace.plan.changes import same_inputs, state_keepers
from millrace.plan.fuse import as_queries, fusion
from millrace.ports import Span

#: How far the folder of a job is that was applied; nothing for one that has none.
Reached = Callable[[str], Committed]


@dataclass(frozen=True, slots=True)
class Continuing:
    """A change from what was applied to what is wanted, each with its queries as jobs."""

    before: World
    after: World
    reached: Reached

    def query_of(self, name: str) -> Job | None:
        """Return the query in which a job was, itself where it was alone."""
        queries = self.before.pipeline.jobs.values()
        found = (job for job in queries if name in {job.name, *(one.name for one in job.members)})
        return next(found, None)

    def keeps(self, job: Job, step: Step | None) -> bool:
        """Whether a job goes on in the folder that it had last; `step` is what the plan says."""
        old = self.before.pipeline.jobs.get(job.name)
        if old is None:
            return self._own_again(job)
        if state_keepers(old) != state_keepers(job):
            return False
        # Spark knows the inputs of a checkpoint by their place in the code, which may be another.
        shuffled = (
            len(job.follows) > 1
            and step is not None
            and step.stateful is False
            and step.impact is not None
            and step.impact >= Impact.REPLACE
        )
        return not shuffled and same_inputs(old, job, self.before, self.after)

    def _own_again(self, job: Job) -> bool:
        """Whether a job that was inside a query has all its positions in a folder from before."""
        query = self.query_of(job.name)
        if query is None or job.members:
            return False
        if self._follows(query) & {self.after.stream_key(name) for name in job.follows}:
            return False  # the query read on there
        own = self.reached(job.name).positions.keys()
        return own == {self._address(name) for name in job.follows}

    def inherited(self, job: Job) -> Committed:
        """Return where a job begins in a new folder: what was committed of its streams before.

        That is what the queries had committed in which its members were; of a stream that was
        inside of one, what a member had committed before by itself.
        """
        positions: Positions = {}
        times = []
        for member in job.members or (job,):
            for name in job.follows:
                found, topic = self._reader(member, name), self._address(name)
                if found is not None and topic in found.positions:
                    positions[topic] = found.positions[topic]
                    times += [found.at] if found.at is not None else []
        return Committed(-1, min(times, default=None), positions, positions)

    def _reader(self, member: Job, stream: str) -> Committed | None:
        """How far the folder is in which a job's positions in a stream are, if there is one."""
        query = self.query_of(member.name)
        if query is None:
            return None
        if self.after.stream_key(stream) in self._follows(query):
            return self.reached(query.name)
        alone = query.name != member.name and stream in member.follows
        return self.reached(member.name) if alone else None

    def _follows(self, query: Job) -> set[Key]:
        return {self.before.stream_key(name) for name in query.follows}

    def _address(self, stream: str) -> str:
        return self.after.pipeline.streams[stream].address


def going_inside(applied: Pipeline, wanted: Pipeline) -> dict[str, list[str]]:
    """Return the streams that were stored and will be inside a query, each with its readers.

    A query is named by its first job; those that are gone from the file are left out.
    """
    queries = as_queries(applied)
    names = fusion(wanted).inside & queries.streams.keys()
    return {
        name: [
            job.name
            for job in queries.readers()[name]
            if name in job.follows and any(one.name in wanted.jobs for one in (job, *job.members))
        ]
        for name in sorted(names)
    }


def refuse_unread(
    stream: str, job: str, positions: Mapping[int, int], ends: Mapping[int, Span]
) -> None:
    """Raise where a job has not read all of a stream that goes inside a query."""
    left = sum(
        max(span.end - max(positions.get(part, 0), span.first), 0) for part, span in ends.items()
    )
    if left:
        raise OperationFailed(
            "unread",
            f"{left} records of {stream} are not read yet by {job}, and the file puts that stream "
            "inside a query",
            "run the file as it was once more with --until-drained, or leave out transient",
        )
