"""How long a record takes from when it was meant to leave until it is seen, in real-time mode."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.streams.child import talking
from bench.streams.load import MADE
from bench.streams.results import DESIGN, Bar, Part, median, ratio
from bench.streams.setting import Setting
from bench.streams.systems import Rig, System, Work, rig
from bench.streams.topics import End, send
from millrace.measure.histogram import Histogram

FIRST_SECONDS = 120.0
#: How long after the last record was sent it may arrive.
LATE_SECONDS = 30.0
#: What is looked at on either side of a batch's end.
AROUND_SECONDS = 1.0
PERCENTS = (10, 25, 50, 75, 90, 95, 99, 99.9, 100)
MOST, MOST_UPDATES, MOST_MS = 1.2, 1.3, 10.0
_FIGURES = ("p50_ms", "p99_ms", "max_ms", "stall_ms", "lost")
_LOAD = [sys.executable, "-m", "bench.streams.load"]


def measure(setting: Setting) -> Part:
    """Measure records that pass."""
    part = _measured(Part("latency"), setting, "sql")
    for rate in setting.rates:
        _judge(part, rate)
    part.rows["by hand, 50/s, as designed"] = {
        "p50_ms": DESIGN["p50, ms"],
        "p99_ms": DESIGN["p99, ms"],
    }
    lost = sum(run["lost"] + run["doubles"] for run in part.runs)
    part.bars.append(Bar("records lost or seen twice", float(lost), 0))
    return part


def measure_updates(setting: Setting) -> Part:
    """Measure the counts of windows, each as soon as a record changes it."""
    setting = replace(
        setting, runs=min(setting.runs, 3), latency_seconds=min(setting.latency_seconds, 40)
    )
    part = _measured(Part("updates"), setting, "updates")
    for rate in setting.rates:
        ours, hand = _rows(part, rate)
        compared = ratio(ours["p50_ms"], hand["p50_ms"])
        part.bars.append(Bar(f"{rate}/s: p50 against by hand", compared, MOST_UPDATES))
    return part


def _measured(part: Part, setting: Setting, kind: str) -> Part:
    """Run both systems by turns, each with every rate, after a short round that only warms up."""
    with rig() as here:
        # A driver's first batches are planned by code that Java has not compiled yet.
        half = setting.latency_seconds // 2
        warm_up = replace(setting, rates=(1000,), latency_seconds=half, checkpoint_seconds=5)
        for system in here.systems:
            _round(here, system, warm_up, kind)
        for number in range(setting.runs):
            for system in here.turn(number):
                for run in _round(here, system, setting, kind):
                    part.runs.append({"round": number, **run})
                    setting.say(
                        f"{run['rate']}/s {system.name}: p50 {run['p50_ms']:.1f} ms, "
                        f"p99 {run['p99_ms']:.1f} ms, worst {run['max_ms']:.0f} ms"
                    )
    return part


def _round(here: Rig, system: System, setting: Setting, kind: str = "sql") -> list[dict[str, Any]]:
    """Start the job anew, wait for a first record, then send at each rate."""
    name = here.name("latency")
    work = Work(name, kind, "real-time", f"in-{name}", f"out-{name}", setting.checkpoint_seconds)
    here.make(work.source, work.sink)
    system.prepare(work)
    system.start(work)
    end = End(here.boot, work.sink)
    try:
        send(here.boot, work.source, MADE[kind](0))
        end.wait(1, FIRST_SECONDS, lambda: system.check(work))
        runs = []
        for place, rate in enumerate(setting.rates):
            found = _sent(here, system, work, rate, (place + 1) * 10_000_000, setting)
            runs.append({"system": system.name, "rate": rate, **found})
        return runs
    finally:
        end.close()
        system.stop(work)
        here.drop(work.source, work.sink)


def _sent(
    here: Rig, system: System, work: Work, rate: int, first: int, setting: Setting
) -> dict[str, Any]:
    """Send at a rate, the first seconds only to warm up, and return the figures."""
    seconds = setting.latency_warm_seconds + setting.latency_seconds
    count, limit = rate * seconds, seconds + LATE_SECONDS
    file = here.place / f"seen-{first}.json"
    receive = ["receive", here.boot, work.sink, str(first), str(count), str(file), str(limit)]
    sender = ["send", here.boot, work.source, str(rate), str(seconds), str(first), work.kind]
    with ExitStack() as stack:
        receiving = stack.enter_context(talking([*_LOAD, *receive], here.place / "receive.log"))
        receiving.hear(60)
        sending = stack.enter_context(talking([*_LOAD, *sender], here.place / "send.log"))
        told = json.loads(sending.hear(seconds + 60)[1])
        receiving.wait(limit + 60)
    system.check(work)
    seen = json.loads(file.read_text())
    file.unlink()
    skipped = rate * setting.latency_warm_seconds
    due = [told["start"] + place / rate for place in range(count)]
    pairs = list(zip(due, seen["seen"], strict=True))[skipped:]
    ends = boundaries(system.checkpoint(work), pairs[0][0], pairs[-1][0])
    return {
        **summary(pairs, ends),
        "doubles": seen["doubles"],
        "sender_late_ms": told["late"] * 1e3,
    }


def boundaries(checkpoint: Path, since: float, until: float) -> list[float]:
    """Return when batches were committed between two times of the monotonic clock."""
    shift = time.time() - time.monotonic()
    files = (checkpoint / "commits").glob("[0-9]*")
    found = sorted(file.stat().st_mtime - shift for file in files if file.name.isdigit())
    return [at for at in found if since <= at <= until]


def summary(pairs: Sequence[tuple[float, float]], ends: Sequence[float]) -> dict[str, Any]:
    """Return the figures of (meant to leave, seen or 0) and of the records around batch ends."""
    histogram = Histogram()
    arrived = [(due, seen - due) for due, seen in pairs if seen]
    for _, took in arrived:
        histogram.add(took)
    stalls = [
        max((took for due, took in arrived if abs(due - end) <= AROUND_SECONDS), default=None)
        for end in ends
    ]
    worst = sorted(arrived, key=lambda item: -item[1])[:10]
    return {
        "count": histogram.count,
        "lost": len(pairs) - len(arrived),
        "p50_ms": _ms(histogram.p(50)),
        "p90_ms": _ms(histogram.p(90)),
        "p99_ms": _ms(histogram.p(99)),
        "p999_ms": _ms(histogram.p(99.9)),
        "max_ms": _ms(histogram.max),
        "stalls_ms": [_ms(stall) for stall in stalls],
        "stall_ms": _ms(median(stalls)),
        "worst": [
            {"ms": took * 1e3, "from_batch_end_s": _nearest(due, ends)} for due, took in worst
        ],
        "percentiles_ms": [[p, _ms(histogram.p(p))] for p in PERCENTS],
    }


def _nearest(due: float, ends: Sequence[float]) -> float | None:
    return min((due - end for end in ends), key=abs, default=None)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _judge(part: Part, rate: int) -> None:
    ours, hand = _rows(part, rate)
    for figure in ("p50_ms", "p99_ms"):
        compared = ratio(ours[figure], hand[figure])
        part.bars.append(Bar(f"{rate}/s: {figure[:3]} against by hand", compared, MOST))
    part.bars.append(Bar(f"{rate}/s: p50, ms", ours["p50_ms"], MOST_MS))


def _rows(part: Part, rate: int) -> list[dict[str, float | None]]:
    """Add the medians of a rate to the table and return them, ours first."""
    found: list[dict[str, float | None]] = []
    for system in ("millrace", "by hand"):
        runs = [run for run in part.runs if run["system"] == system and run["rate"] == rate]
        found.append({figure: median([run[figure] for run in runs]) for figure in _FIGURES})
        part.rows[f"{rate}/s, {system}"] = found[-1]
    return found
