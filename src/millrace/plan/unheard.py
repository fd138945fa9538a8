"""Jobs that go and of whose work nothing would be left: these need not read anything to its end."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from millrace.model.job import Job
from millrace.model.places import Key, World


def unheard(old: World, stay: AbstractSet[str], gone: AbstractSet[Key]) -> frozenset[str]:
    """Return the jobs that go whose results go too, and nothing else comes of.

    `stay` are the names of the jobs that stay, `gone` the streams that are removed. A job that
    works for one that is heard is heard.
    """
    jobs = old.pipeline.jobs
    left = {name for name, job in jobs.items() if name not in stay and not _acts(job)}
    while True:
        heard = {name for name in left if _heard(old, jobs[name], gone, left)}
        if not heard:
            return frozenset(left)
        left -= heard


def _acts(job: Job) -> bool:
    """Whether a job may do something beside its streams: to what is outside, or in its code."""
    every = (job, *job.members)
    return any(one.write is not None or one.has_code or not one.outputs for one in every)


def _heard(old: World, job: Job, gone: AbstractSet[Key], left: AbstractSet[str]) -> bool:
    keys = (*old.writes(job), *old.letters(job))
    return any(key not in gone or not left >= set(old.readers.get(key, ())) for key in keys)
