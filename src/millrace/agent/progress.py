"""How far the jobs of a pipeline are, from their folders: for whoever does not run it."""

from __future__ import annotations

import json
from contextlib import suppress

from millrace.agent.brokers import site_place
from millrace.agent.state import read_applied
from millrace.engines.spark.ledger import progress_of
from millrace.machine import Folders
from millrace.plan.fuse import as_queries
from millrace.ports import Progress


def progress_at(folders: Folders, pipeline: str) -> dict[str, Progress]:
    """Return the progress of each job as of its last boundary; of none that never had one."""
    applied = read_applied(folders.pipeline(pipeline))
    found = {}
    for name, job in as_queries(applied.pipeline).jobs.items():  # one inside has an old folder
        number = applied.places.get(name, 0)
        place = site_place(folders, pipeline, job.site or "") / "jobs" / name / str(number)
        files = {name: place / "ledger.json"}
        files |= {file.stem.removeprefix("ledger-"): file for file in place.glob("ledger-*.json")}
        for one, file in files.items():
            with suppress(FileNotFoundError):
                found[one] = progress_of(json.loads(file.read_text("utf-8")))
    return found
