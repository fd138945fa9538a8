"""How soon a first record is through: a pipeline from nothing, and a job added to a driver."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from bench.streams.pipeline import Probe, running
from bench.streams.results import Bar, Part, median
from bench.streams.setting import Setting
from bench.streams.systems import Work, pipeline_text, rig
from bench.streams.topics import End, record, send

LIMIT_SECONDS = 180.0
RUN_SECONDS, ADDED_SECONDS = 20.0, 2.0


def measure(setting: Setting) -> Part:
    """Do both, again and again, each time with a fresh driver."""
    part = Part("start")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for number in range(setting.runs):
            run = {"round": number, **_run(Path(folder) / str(number)), **_added()}
            part.runs.append(run)
            setting.say(
                f"millrace run {run['run_seconds']:.1f} s, job added {run['added_seconds']:.2f} s"
            )
    for name in ("run_seconds", "added_seconds"):
        values = [run[name] for run in part.runs]
        part.rows[name.replace("_", ", ")] = {
            "median": median(values), "least": min(values), "most": max(values),
        }  # fmt: skip
    ran, added = (part.rows[name]["median"] for name in ("run, seconds", "added, seconds"))
    part.bars += [
        Bar("millrace run of one job: first record through, s", ran, RUN_SECONDS),
        Bar("a job added to a driver: first record through, s", added, ADDED_SECONDS),
    ]
    return part


def _run(place: Path) -> dict[str, Any]:
    """Run one job through `millrace run`, from the command to its first record."""
    text = pipeline_text(Work("one", "sql", "real-time", "raw", "out")).replace(
        "partitions: 2", "partitions: 1"
    )
    with running(text, place) as pipeline:
        probe = Probe(pipeline.broker(["raw", "out"], LIMIT_SECONDS), "raw", "out")
        try:
            seconds = probe.through(record(0, 88.5), LIMIT_SECONDS) - pipeline.began
        finally:
            probe.close()
        return {"run_seconds": seconds, "said": pipeline.heard()}


def _added() -> dict[str, Any]:
    """Add a second job to a driver that runs one; its record is there already."""
    with rig(by_hand=False) as here:
        system = here.systems[0]
        taken = []
        for name in ("first", "second"):
            work = Work(name, "sql", "real-time", f"in-{name}", f"out-{name}")
            here.make(work.source, work.sink)
            send(here.boot, work.source, record(0, 88.5))
            end = End(here.boot, work.sink)
            end.count()
            system.prepare(work)
            began = time.monotonic()
            system.start(work)
            started = time.monotonic()
            arrival = end.wait(1, LIMIT_SECONDS, lambda one=work: system.check(one))  # type: ignore[misc]
            end.close()
            taken.append((started - began, arrival.last - began))
    return {
        "first_job_seconds": taken[0][1],
        "added_start_seconds": taken[1][0],
        "added_seconds": taken[1][1],
    }
