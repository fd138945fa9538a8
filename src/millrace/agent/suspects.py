"""Which jobs may be why a driver dies again and again; decided from facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from millrace.model.job import Job

#: Deaths of a driver in which a job got nowhere, before it gets a driver of its own.
DEATHS = 3
#: Deaths longer ago than this say nothing of today.
WITHIN_SECONDS = 600.0
#: A driver costs hundreds of megabytes: so many jobs at most are set apart at a time.
MOST = 4


@dataclass(slots=True)
class Lives:
    """What the jobs of one driver got done between its deaths."""

    _batches: dict[str, int] = field(default_factory=dict)
    #: By job: when the driver died before the job had committed anything, again and again.
    _idle: dict[str, list[float]] = field(default_factory=dict)

    def died(self, now: float, batches: Mapping[str, int]) -> None:
        """Take note of a death; `batches` are the last that the jobs committed (-1: none)."""
        for name, batch in batches.items():
            known = self._batches.get(name, -1)
            recent = [past for past in self._idle.get(name, ()) if now - past < WITHIN_SECONDS]
            self._idle[name] = [] if batch > known else [*recent, now]
            self._batches[name] = max(batch, known)

    def suspects(self, jobs: Sequence[Job]) -> tuple[Job, ...]:
        """Return the jobs to set apart: in each of the last deaths they had got nowhere.

        Those with a user's own code come first: Spark's operators seldom end their process. A
        driver with one job has no suspects.
        """
        if len(jobs) < 2:
            return ()
        stuck = [job for job in jobs if len(self._idle.get(job.name, ())) >= DEATHS]
        own = [job for job in stuck if any(one.kind != "sql" for one in (job, *job.members))]
        return tuple((own or stuck)[:MOST])
