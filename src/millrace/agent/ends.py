"""When jobs are over: with their inputs, or after their time; decided from what is known."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping

from millrace.model.graph import in_order
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.policy import EndWhen
from millrace.ports import JobState

#: By stream, the names of the jobs that write it.
Feeders = Mapping[str, frozenset[str]]


def feeders(pipeline: Pipeline) -> Feeders:
    """Return which jobs write each stream, those included that put malformed records into it.

    `pipeline` is as in the file: also of a stream inside a query dead letters may come.
    """
    writers, rejecters = pipeline.writers(), pipeline.rejecters()
    return {
        name: frozenset(job.name for job in (*writers[name], *rejecters[name]))
        for name in pipeline.streams
    }


def over(
    queries: Pipeline,
    writers: Feeders,
    states: Mapping[str, JobState],
    seconds: Mapping[str, float],
) -> list[Job]:
    """Return the running jobs that shall end now, in the order of the file.

    `seconds` is how long each has been running. A stream has ended when all of its writers here
    have, but for who reads it; one that is written from elsewhere never ends, nor do jobs that
    wait for each other round a circle through dead letters.
    """
    ended = {name for name, state in states.items() if state is JobState.ENDED}
    return [
        job
        for job in queries.jobs.values()
        if states.get(job.name) is JobState.RUNNING
        and (_late(job, seconds.get(job.name, 0.0)) or _empty(job, writers, ended))
    ]


def in_drain_order(queries: Pipeline, writers: Feeders) -> list[Job]:
    """Return all jobs, each after those that write its streams, dead letters included.

    Where dead letters make a circle, they are left out of account.
    """
    query = {one.name: job.name for job in queries.jobs.values() for one in (job, *job.members)}
    above = {
        name: sorted({query[w] for s in job.reads for w in writers.get(s, ())} - {name})
        for name, job in sorted(queries.jobs.items())
    }
    try:
        return [queries.jobs[name] for name in graphlib.TopologicalSorter(above).static_order()]
    except graphlib.CycleError:
        return in_order(queries)


def _empty(job: Job, writers: Feeders, ended: set[str]) -> bool:
    """Whether nothing comes any more; how far a program is only it knows, so it ends by itself."""
    if job.jar is not None or job.end.when is not EndWhen.INPUTS or not job.follows:
        return False
    own = {job.name, *(member.name for member in job.members)}
    inputs = [writers.get(name, frozenset()) for name in job.follows]
    return all(names and names - own <= ended for names in inputs)


def _late(job: Job, seconds: float) -> bool:
    return job.end.after is not None and seconds >= job.end.after.seconds
