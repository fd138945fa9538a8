"""Asks the engines about a pipeline without running anything of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from millrace.agent.fleet import Fleet, Told
from millrace.agent.orders import Clients, orders, with_schemas
from millrace.machine import Folders
from millrace.model.graph import in_order
from millrace.model.pipeline import Pipeline
from millrace.model.status import JobFacts
from millrace.plan.fuse import as_queries

#: Queries are only made, never started, so nobody connects to it.
NOWHERE = {"bootstrap.servers": "127.0.0.1:9"}


def examined(
    pipeline: Pipeline, folders: Folders, code: Path, told: Told | None = None
) -> Mapping[str, JobFacts]:
    """Return what the engines find out about each job; raises for the first that can't run.

    Drivers are started for it and ended again; brokers are not needed.
    """
    with _borrowed(folders) as borrowed:
        fleet = Fleet.of(pipeline, borrowed, told)
        clients = Clients(dict.fromkeys(fleet.brokers, NOWHERE))
        queries = as_queries(pipeline)
        places = {name: borrowed.state / name for name in queries.jobs}
        found: dict[str, JobFacts] = {}
        known = pipeline
        try:
            for driver in fleet.drivers.values():
                driver.launch()
            for driver in fleet.drivers.values():
                jobs = [job for job in in_order(queries) if fleet.driver(job) is driver]
                found |= driver.examine(orders(known, clients, places, code, jobs))
                known = with_schemas(pipeline, found)
        finally:
            for driver in fleet.drivers.values():
                driver.close()
        return found


@contextmanager
def _borrowed(folders: Folders) -> Iterator[Folders]:
    with tempfile.TemporaryDirectory(prefix="millrace-") as home:
        yield Folders(Path(home), folders.cache)
