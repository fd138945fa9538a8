"""Asks the engines about a pipeline without running anything of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from millrace.agent.fleet import Told
from millrace.agent.making import Surroundings
from millrace.agent.orders import with_schemas
from millrace.agent.workshops import Workshops
from millrace.machine import Folders
from millrace.model.graph import in_order
from millrace.model.pipeline import Pipeline
from millrace.model.status import JobFacts
from millrace.plan.fuse import as_queries
from millrace.stores.artifacts import Artifacts, LocalDepot


def examined(
    pipeline: Pipeline, folders: Folders, code: Path, told: Told | None = None
) -> Mapping[str, JobFacts]:
    """Return what the engines find out about each job; raises for the first that can't run.

    Drivers are started for it and ended again. Brokers need not be there; those that have an
    address are asked how they are reached.
    """
    with _borrowed(folders) as borrowed:
        depot = LocalDepot(Artifacts(borrowed.state / "artifacts"))
        makes = Workshops(borrowed, depot, told, code=code)
        shops = {name: makes.workshop(pipeline.name, name) for name in pipeline.sites}
        found: dict[str, JobFacts] = {}
        jobs = in_order(as_queries(pipeline))
        try:
            with ThreadPoolExecutor() as pool:  # drivers start side by side
                list(pool.map(lambda job: shops[job.site or ""].engine(pipeline, job.name), jobs))
            for job in jobs:
                shop, known = shops[job.site or ""], with_schemas(pipeline, found)
                order = shop.order(known, job.name, None, Surroundings())
                found |= shop.engine(known, job.name).examine([order])
        finally:
            for shop in shops.values():
                shop.close()
        return found


@contextmanager
def _borrowed(folders: Folders) -> Iterator[Folders]:
    with tempfile.TemporaryDirectory(prefix="millrace-") as home:
        yield Folders(Path(home), folders.cache)
