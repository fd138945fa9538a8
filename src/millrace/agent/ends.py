"""When jobs are over: with their inputs, or after their time; decided from what is known."""

from __future__ import annotations

from collections.abc import Mapping

from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.model.policy import EndWhen
from millrace.ports import JobState


def over(
    pipeline: Pipeline, states: Mapping[str, JobState], seconds: Mapping[str, float]
) -> list[Job]:
    """Return the running jobs that shall end now, in the order of the file.

    `seconds` is how long each has been running. A stream has ended when all of its writers here
    have; one that is written from elsewhere never ends.
    """
    ended = {
        name
        for name, writers in pipeline.writers().items()
        if writers and all(states.get(job.name) is JobState.ENDED for job in writers)
    }
    return [
        job
        for job in pipeline.jobs.values()
        if states.get(job.name) is JobState.RUNNING
        and (_late(job, seconds.get(job.name, 0.0)) or _empty(job, ended))
    ]


def complete(pipeline: Pipeline, states: Mapping[str, JobState]) -> bool:
    """Whether all jobs are over."""
    return all(states.get(name) is JobState.ENDED for name in pipeline.jobs)


def _empty(job: Job, ended: set[str]) -> bool:
    """Whether nothing comes any more; how far a program is only it knows, so it ends by itself."""
    if job.jar is not None:
        return False
    return job.end.when is EndWhen.INPUTS and bool(job.follows) and ended.issuperset(job.follows)


def _late(job: Job, seconds: float) -> bool:
    return job.end.after is not None and seconds >= job.end.after.seconds
