"""Threads for work that blocks, apart by kind: what waits long takes none from what is quick.

Plain routes run in the pool of the framework. Who waits for a site would fill that pool, and the
site's own report, which ends the wait, would find no thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, TypeVarTuple

import anyio
from anyio import to_thread

from millrace.api.limits import Limits

Found = TypeVar("Found")
Given = TypeVarTuple("Given")


@dataclass(frozen=True, slots=True)
class Lanes:
    """So many threads at most for each kind."""

    looks: anyio.CapacityLimiter
    questions: anyio.CapacityLimiter
    uploads: anyio.CapacityLimiter

    @classmethod
    def of(cls, limits: Limits) -> Lanes:
        """Return the lanes that limits allow."""
        return cls(
            anyio.CapacityLimiter(limits.looks),
            anyio.CapacityLimiter(limits.questions),
            anyio.CapacityLimiter(limits.uploads),
        )

    async def look(self, work: Callable[[*Given], Found], *given: *Given) -> Found:
        """Do what is short, for who waits."""
        return await to_thread.run_sync(work, *given, limiter=self.looks)

    async def question(self, work: Callable[[*Given], Found], *given: *Given) -> Found:
        """Ask a site, which may take long to answer; who goes meanwhile leaves the thread to it."""
        return await to_thread.run_sync(
            work, *given, limiter=self.questions, abandon_on_cancel=True
        )

    async def upload(self, work: Callable[[*Given], Found], *given: *Given) -> Found:
        """Take in what somebody sends, however slowly it comes."""
        return await to_thread.run_sync(work, *given, limiter=self.uploads)
