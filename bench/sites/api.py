"""How soon a page of jobs is answered while many jobs are there and some are being changed."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from bench.sites.figures import SitePart, percentile
from bench.sites.files import many
from bench.sites.served import Served, done, serving
from bench.sites.setting import Setting
from bench.streams.child import Talker, talking
from bench.streams.results import Bar

P99_MS = 100.0
LIMIT_SECONDS = 180.0
PERCENTS = (50.0, 90.0, 99.0, 99.9)


def measure(setting: Setting) -> SitePart:
    """Ask at a steady rate: first at rest, then while a tenth of the jobs is changed."""
    part = SitePart("api")
    tenth = max(setting.jobs // 10, 1)
    with serving() as served:
        setting.say(f"applying {setting.jobs} jobs")
        served.apply(many(setting.jobs, setting.sites, setting.seed))
        for name, changed in (("at rest", 0), ("while reconciling", tenth)):
            run = _run(served, setting, changed)
            part.runs.append({"what": name, **run})
            part.rows[f"{name}, ms"] = {
                **{f"p{percent:g}": percentile(run["ms"], percent) for percent in PERCENTS},
                "max": max(run["ms"]),
                "cores of the coordinator": run["cores"],
            }
            setting.say(f"{name}: p99 {part.rows[f'{name}, ms']['p99']:.1f} ms")
    busy = part.rows["while reconciling, ms"]
    what = f"a page of 100 of {setting.jobs} jobs at {setting.rate}/s"
    part.bars.append(Bar(f"{what}, p99, ms", busy["p99"], P99_MS))
    changes = part.runs[-1]["changes"]
    part.notes.append(
        f"{len(changes)} changes of {tenth} jobs each while it was asked, "
        f"of {sum(changes):.1f} s in all"
    )
    return part


def _run(served: Served, setting: Setting, changed: int) -> dict[str, Any]:
    """Ask for some seconds; jobs are changed again and again meanwhile."""
    seconds, log = setting.api_seconds, served.home.parent / "load.log"
    words = (str(served.home), str(setting.rate), str(seconds))
    with talking([sys.executable, "-m", "bench.sites.load", *words], log) as clients:
        clients.hear(LIMIT_SECONDS)
        before, began = _used(served), time.monotonic()
        clients.say("go")
        until = time.monotonic() + seconds
        changes = _changes(served, setting, changed, until) if changed else []
        took = _answer(clients, seconds)
    cores = (_used(served) - before) / (time.monotonic() - began)
    return {"changed": changed, "changes": changes, "ms": took, "cores": cores}


def _used(served: Served) -> float:
    """The processor time of the coordinator so far."""
    times = served.process.cpu_times()
    return float(times.user + times.system)


def _changes(served: Served, setting: Setting, changed: int, until: float) -> list[float]:
    """Change jobs and change them back until it is time; how long each took."""
    found, turn = [], 0
    while time.monotonic() < until:
        began = time.monotonic()
        turn = changed - turn
        wanted = many(setting.jobs, setting.sites, setting.seed, changed=turn)
        done(served.client, served.client.apply(wanted))
        found.append(time.monotonic() - began)
    return found


def _answer(clients: Talker, seconds: float) -> list[float]:
    took: list[float] = json.loads(clients.hear(seconds + LIMIT_SECONDS)[1])
    return took
