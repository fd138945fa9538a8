"""The versions of a pipeline's file: who brought each, when, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from millrace.model.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Submission:
    """A file as somebody brings it."""

    wanted: Pipeline
    #: Who brings it, and when, in seconds since the epoch.
    by: str = ""
    at: float = 0.0
    note: str = ""
    #: The artifact with its code; None where it has none.
    code: str | None = None
    #: Whether jobs may lose what they keep, where it can't be carried over.
    state_loss: bool = False
    #: Whether streams stay that are no longer in the file.
    keeps: bool = False
    #: Whether engines are also asked about jobs that are as they were.
    anew: bool = False
    #: Sites that who brings it knows to be down.
    lost: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Revision:
    """One version of a file, and the operation that was to put it in force."""

    number: int
    by: str = ""
    #: When it came, and when its operation was over, in seconds since the epoch.
    at: float = 0.0
    ended: float | None = None
    note: str = ""
    code: str | None = None
    #: How the operation ended: as in `OperationState`; empty while it is on its way.
    outcome: str = ""
    reason: str = ""


def versioned(wanted: Pipeline, code: str | None) -> Pipeline:
    """Return a file in which jobs with code of the user's have versions: by the artifact, if none.

    Other code is another version then, and restarts them.
    """
    if code is None:
        return wanted
    jobs = {
        name: replace(job, version=job.version or code[:16]) if job.has_code else job
        for name, job in wanted.jobs.items()
    }
    return replace(wanted, jobs=jobs)


def operation_id(pipeline: str, number: int) -> str:
    """Return the name of the operation that puts a version of a file in force."""
    return f"{pipeline}.{number}"


def operation_parts(identity: str) -> tuple[str, int] | None:
    """Return the pipeline and the version of an operation's name; None for another text."""
    name, _, number = identity.rpartition(".")
    return (name, int(number)) if name and number.isascii() and number.isdigit() else None


def superfluous(
    revisions: Mapping[int, Revision], used: frozenset[int], most: int
) -> frozenset[int]:
    """Return the numbers of old versions that nobody needs, beyond the last so many."""
    old = sorted(revisions)[:-most] if len(revisions) > most else []
    return frozenset(old) - used
