"""The order of a pipeline's graph."""

from __future__ import annotations

import graphlib

from millrace.model.job import Job
from millrace.model.pipeline import Pipeline


def in_order(pipeline: Pipeline) -> list[Job]:
    """Return all jobs, each after the jobs whose streams it reads; equal ones by name.

    The graph must have no circle: graphlib.CycleError otherwise.
    """
    writers = pipeline.writers()
    above = {
        job.name: sorted(
            {writer.name for stream in job.reads for writer in writers.get(stream, ())}
        )
        for job in sorted(pipeline.jobs.values(), key=lambda job: job.name)
    }
    return [pipeline.jobs[name] for name in graphlib.TopologicalSorter(above).static_order()]
