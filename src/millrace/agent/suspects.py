"""Which jobs may be why a driver dies again and again; decided from facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millrace.model.job import Job

#: Deaths of a driver, each soon after the other, before its suspects get drivers of their own.
DEATHS = 3
#: A driver costs hundreds of megabytes: so many jobs at most are set apart at a time.
MOST = 4


def suspects(
    jobs: Sequence[Job], before: Mapping[str, int], now: Mapping[str, int]
) -> tuple[Job, ...]:
    """Return the jobs to set apart; `before` and `now` are batches at the driver's start and end.

    A job that committed a batch in between works. Of the others those with a user's own code come
    first: Spark's operators seldom end their process. A driver with one job has no suspects.
    """
    if len(jobs) < 2:
        return ()
    stuck = [job for job in jobs if now.get(job.name, -1) <= before.get(job.name, -1)]
    own = [job for job in stuck if job.kind != "sql"]
    return tuple((own or stuck)[:MOST])
