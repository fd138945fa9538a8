"""What Flink's states of a job mean to Millrace; nothing here asks anybody."""

from __future__ import annotations

from dataclasses import replace

from millrace.engines.flink.rest import SeenJob, Slots
from millrace.ports import JobState, JobStatus

#: Why nothing is known of how such a job runs.
REASONS = ("a program of its own decides",)
_PAGE = "see its page at {url}/#/job/{id}/exceptions"


def begun(run: str) -> JobStatus:
    """Return the status of a job that was just handed over."""
    return JobStatus(JobState.STARTING, reasons=REASONS, run=run)


def status_of(job: str, seen: SeenJob, was: JobStatus, cause: str, url: str) -> JobStatus:
    """Return a job's status by what Flink shows of it; `cause` is why it failed last."""
    known = replace(was, run=seen.id, error="", hint="")
    hint = _PAGE.format(url=url, id=seen.id)
    match seen.state:
        case "RUNNING" if seen.waiting:
            return replace(known, state=JobState.STARTING, error=cause, hint=hint if cause else "")
        case "RUNNING":
            return replace(known, state=JobState.RUNNING)
        case "FINISHED":
            return replace(known, state=JobState.ENDED)
        case "CANCELED":
            error = f"job {job} was cancelled in Flink"
            return replace(known, state=JobState.STOPPED, error=error, hint="start it again here")
        case "FAILED":
            error = f"job {job} failed: {cause or 'Flink does not say why'}"
            return replace(known, state=JobState.FAILED, error=error, hint=hint)
        case "RESTARTING" | "FAILING":
            error = f"job {job} failed, and Flink starts it again: {cause or 'no cause is known'}"
            return replace(known, state=JobState.STARTING, error=error, hint=hint)
        case "SUSPENDED":
            return replace(known, state=JobState.STARTING, error=f"job {job}: its JobManager ends")
        case "CANCELLING":
            return was
        case _:
            return replace(known, state=JobState.STARTING)


def away(job: str, was: JobStatus, said: str, seconds: float) -> JobStatus:
    """Return the status of a job whose cluster does not answer: it may well run on."""
    return replace(
        was,
        error=f"job {job} can't be seen for {seconds:.0f} s: {said}",
        hint="it goes on as it was, as far as is known; bring its Flink back",
    )


def lost(job: str, was: JobStatus, begin: str) -> JobStatus:
    """Return the status of a job that its cluster does not know any more."""
    return replace(
        was,
        state=JobState.FAILED,
        error=f"Flink does not know job {job} any more: it was started anew without it",
        hint=f"it is started again from {begin or 'its beginning'}",
        transient=True,
    )


def cluster_ended(job: str, was: JobStatus, log: str) -> JobStatus:
    """Return the status of a job whose cluster was one of our own, and is gone."""
    return replace(
        was,
        state=JobState.FAILED,
        error=f"the Flink that ran job {job} ended",
        hint=f"it is started again from its last checkpoint or savepoint, if it has one; see {log}",
        transient=True,
    )


def ended_by_us(was: JobStatus, why: str) -> JobStatus:
    """Return the status of a job that was ended without a savepoint; trying again can help."""
    return replace(was, state=JobState.FAILED, error=why, hint="start it again", transient=True)


def short_of_slots(job: str, seen: SeenJob | None, slots: Slots) -> str:
    """Return what to say of a job whose tasks wait; empty where they don't wait for slots."""
    if slots.managers == 0:
        return f"job {job} waits: Flink has no TaskManager"
    if slots.free == 0:
        need = f", and {seen.waiting} more are needed" if seen is not None and seen.waiting else ""
        return f"job {job} waits: all {slots.total} task slots are taken{need}"
    return ""
