"""What a coordinator costs that has nothing to do, and what it asks of engines then."""

from __future__ import annotations

import time
from typing import Any

from bench.sites.figures import SitePart
from bench.sites.files import many
from bench.sites.served import Served, serving
from bench.sites.setting import Setting
from bench.streams.results import Bar

PERCENT = 5.0
REST_SECONDS = 3.0


def measure(setting: Setting) -> SitePart:
    """Apply jobs, let the coordinator rest, then look at it for a while."""
    part, jobs = SitePart("idle"), setting.idle_jobs
    with serving() as served:
        setting.say(f"applying {jobs} jobs")
        served.apply(many(jobs, setting.sites, setting.seed))
        time.sleep(REST_SECONDS)
        run = _watched(served, setting.idle_seconds)
    part.runs.append({"jobs": jobs, **run})
    calls = {name: count / setting.idle_seconds for name, count in run["calls"].items()}
    part.rows["of a core, %"] = {"idle": run["percent"]}
    part.rows["calls of fakes, /s"] = dict(calls)
    others = sum(
        count for name, count in run["calls"].items()
        if name.startswith("engine.") and name != "engine.status"
    )  # fmt: skip
    part.bars += [
        Bar(
            f"idle with {jobs} jobs on {setting.sites} sites, % of a core", run["percent"], PERCENT
        ),
        Bar("calls of engines beyond status", float(others), 0.0),
    ]
    return part


def _watched(served: Served, seconds: float) -> dict[str, Any]:
    """Return the share of a core that is used, and what fakes were asked, over some seconds."""
    process, before = served.process, served.calls()
    first, began = process.cpu_times(), time.monotonic()
    time.sleep(seconds)
    last, took = process.cpu_times(), time.monotonic() - began
    after = served.calls()
    used = last.user + last.system - first.user - first.system
    asked = {name: count - before.get(name, 0) for name, count in after.items()}
    return {
        "seconds": took,
        "percent": 100 * used / took,
        "memory_mb": process.memory_info().rss / 1e6,
        "calls": {name: count for name, count in asked.items() if count},
    }
