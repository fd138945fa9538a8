"""How long a system takes for what is already in a topic; used by `throughput` and `map`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from bench.streams.child import talking
from bench.streams.kinds import KINDS
from bench.streams.pipeline import spent
from bench.streams.results import median
from bench.streams.systems import HERE, Rig, System, Work
from bench.streams.topics import End, passing

LIMIT_SECONDS = 300.0


def nothing() -> None:
    """Look at nothing."""


def timed(
    rig: Rig, system: System, kind: str, mode: str, source: str, count: int
) -> dict[str, Any]:
    """Do the work once, from a fresh place to a fresh topic, and return the figures."""
    name = rig.name(f"{kind}-{mode}")
    work = Work(name, kind, mode, source, f"out-{name}")
    rig.make(work.sink)
    end = End(rig.boot, work.sink)
    end.count()
    system.prepare(work)
    try:
        used, began = spent(system.pid), time.monotonic()
        system.start(work)
        started = time.monotonic() - began
        wanted = KINDS[kind].results(count)
        arrival = end.wait(wanted, LIMIT_SECONDS, lambda: system.check(work))
        found = figures(arrival.last - began, count)
        found["cpu_seconds"] = spent(system.pid) - used
        written = end.count()
    finally:
        system.stop(work)
        end.close()
        rig.drop(work.sink)
    flow = arrival.last - arrival.first
    share = (wanted - arrival.at_first) / wanted
    return {
        "system": system.name,
        "kind": kind,
        "mode": mode,
        **found,
        "start_seconds": started,
        "first_seconds": arrival.first - began,
        "flow_rate": count * share / flow if flow > 0.2 else None,
        "too_many": written - wanted,
    }


def looped(rig: Rig, source: str, count: int) -> dict[str, Any]:
    """Do the work with the plain loop and return the figures; its imports are not counted."""
    sink = rig.name("out-loop")
    rig.make(sink)
    end = End(rig.boot, sink)
    end.count()
    command = [sys.executable, str(HERE / "loop.py"), rig.boot, source, sink]
    try:
        with talking(command, rig.place / "loop.log") as loop:
            began, _ = loop.hear(30)
            arrival = end.wait(passing(count), LIMIT_SECONDS, nothing)
    finally:
        end.close()
        rig.drop(sink)
    return {"system": "plain loop", "mode": "loop", **figures(arrival.last - began, count)}


def figures(seconds: float, count: int) -> dict[str, float]:
    """Return time and rate of a run."""
    return {"seconds": seconds, "rate": count / seconds}


def of(
    runs: Sequence[dict[str, Any]], system: str, mode: str, figure: str, kind: str | None = None
) -> float | None:
    """Return the median of a figure over the runs of a system that are no warm-up."""
    chosen = [
        run.get(figure)
        for run in runs
        if run["system"] == system and run["mode"] == mode and not run["warm_up"]
        if kind is None or run["kind"] == kind
    ]
    return median(chosen)
