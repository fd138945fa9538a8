"""Looks into what the jobs of a pipeline keep."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from millrace.agent.brokers import site_place
from millrace.agent.state import read_applied
from millrace.engines.spark.keyed.show import Shown, kept
from millrace.engines.spark.trial import trial_session
from millrace.errors import OperationFailed
from millrace.machine import Folders, find_java
from millrace.model.job import Job
from millrace.model.pipeline import Pipeline


@contextmanager
def state_of(
    pipeline: Pipeline, job: Job, folders: Folders, key: str | None
) -> Iterator[Iterator[Shown]]:
    """Give what a job keeps per key, of all keys or of one; Spark is started for it."""
    if job.state is None:
        raise OperationFailed(
            "no-state",
            f"job {job.name} is a {job.kind} job: it keeps no state per key",
            "name a job that says `state:`",
        )
    checkpoint = job_place(pipeline, job, folders) / "checkpoint"
    java = find_java(folders.cache)
    with ExitStack() as stack:
        with _told_to(folders.cache / "state-show.log"):
            session = stack.enter_context(trial_session(java, folders.cache))
        yield kept(session, checkpoint, job.state.key, key)


@contextmanager
def _told_to(log: Path) -> Iterator[None]:
    """Let what is started meanwhile say its warnings to a file: nobody asked for them."""
    log.parent.mkdir(parents=True, exist_ok=True)
    errors = os.dup(2)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(errors, 2)
        os.close(errors)


def job_place(pipeline: Pipeline, job: Job, folders: Folders) -> Path:
    """Return where a job keeps its progress; raises for one that never ran here."""
    number = read_applied(folders.pipeline(pipeline.name)).places.get(job.name)
    if number is None:
        raise OperationFailed(
            "never-ran",
            f"job {job.name} of {pipeline.name} never ran here",
            "run it first: millrace run FILE (with the same --home)",
        )
    return site_place(folders, pipeline.name, job.site or "") / "jobs" / job.name / str(number)
