"""Chains of jobs that pass records on: how long until the first is through, and what they cost."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.streams.pipeline import Probe, running, usage
from bench.streams.results import Bar, Part, median
from bench.streams.setting import Setting

LIMIT_SECONDS = 240.0
FROM_RUN, FROM_DRIVER, HOP, MEMORY_MB, CORES, LINEAR = 55.0, 40.0, 0.5, 2000.0, 0.4, 0.95
_FIGURES = (
    "through_seconds",
    "after_driver_seconds",
    "p50_seconds",
    "java_mb",
    "python_mb",
    "idle_cores",
)


def text(jobs: int) -> str:
    """Return the file of a chain."""
    lines = ["pipeline: bench", "sites: {here: {broker: kafka}}"]
    lines += ["defaults: {streams: {partitions: 1, format: raw}, jobs: {checkpoint: 60 s}}"]
    lines += ["streams:", *(f"  t{number}: {{}}" for number in range(jobs + 1)), "jobs:"]
    lines += [
        f'  j{number}: {{from: t{number}, to: t{number + 1}, sql: "SELECT * FROM t{number}"}}'
        for number in range(jobs)
    ]
    return "\n".join(lines) + "\n"


def measure(setting: Setting) -> Part:
    """Run every length of chain, again and again."""
    part = Part("chain")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for number in range(setting.runs):
            for jobs in setting.chain:
                place = Path(folder) / f"{number}-{jobs}"
                run = _run(jobs, place, setting, thorough=jobs == max(setting.chain))
                part.runs.append({"round": number, "jobs": jobs, **run})
                setting.say(f"{jobs} jobs: through after {run['through_seconds']:.1f} s")
    _judge(part, setting)
    return part


def _run(jobs: int, place: Path, setting: Setting, *, thorough: bool) -> dict[str, Any]:
    """Run a chain; a `thorough` one is also measured while it runs."""
    with running(text(jobs), place) as pipeline:
        address = pipeline.broker(["t0", f"t{jobs}"], LIMIT_SECONDS)
        probe = Probe(address, "t0", f"t{jobs}")
        try:
            through = probe.through(b"x" * 100, LIMIT_SECONDS) - pipeline.began
            up = pipeline.said(" is up")
            run: dict[str, Any] = {
                "through_seconds": through,
                "after_driver_seconds": through - up if up is not None else None,
                "said": pipeline.heard(),
            }
            if thorough:
                run["hops_seconds"] = hops = [_hop(probe) for _ in range(setting.chain_records)]
                run["p50_seconds"] = median(hops)
                run |= _cost(pipeline.driver(), setting.idle_seconds)
        finally:
            probe.close()
        pipeline.check()
    return run


def _hop(probe: Probe) -> float:
    began = time.monotonic()
    return probe.through(b"y" * 100, 60.0) - began


def _cost(driver: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return memory and idle processor use of a driver, after a moment of rest."""
    time.sleep(seconds / 4)
    return {
        **{f"{name}_mb": process.memory_info().rss / 1e6 for name, process in driver.items()},
        "idle_cores": usage(list(driver.values()), seconds),
        "threads": driver["java"].num_threads(),
    }


def _judge(part: Part, setting: Setting) -> None:
    for jobs in setting.chain:
        runs = [run for run in part.runs if run["jobs"] == jobs]
        named = {figure: median([run.get(figure) for run in runs]) for figure in _FIGURES}
        part.rows[f"{jobs} jobs"] = {
            name: value for name, value in named.items() if value is not None
        }
    longest = max(setting.chain)
    last = part.rows[f"{longest} jobs"]
    part.bars += [
        Bar(f"{longest} jobs: first record through, s", last["through_seconds"], FROM_RUN),
        Bar("the same since the driver is up, s", last.get("after_driver_seconds"), FROM_DRIVER),
        Bar(f"{longest} jobs: p50 of a record, s", last.get("p50_seconds"), HOP),
        Bar("memory of the driver's Java, MB", last.get("java_mb"), MEMORY_MB),
        Bar("cores that the driver uses when idle", last.get("idle_cores"), CORES),
    ]
    times = [part.rows[f"{jobs} jobs"]["through_seconds"] or 0.0 for jobs in setting.chain]
    slope, base, fit = line(list(setting.chain), times)
    part.rows["straight line"] = {"s for each job": slope, "s before": base, "R2": fit}
    part.bars.append(Bar("start time over jobs, R2 of a straight line", fit, LINEAR, at_most=False))


def line(lengths: list[int], times: list[float]) -> tuple[float, float, float]:
    """Return slope, base and R2 of the straight line through the points."""
    slope, base = (float(found) for found in np.polyfit(lengths, times, 1))
    middle = sum(times) / len(times)
    left = sum((t - base - slope * n) ** 2 for n, t in zip(lengths, times, strict=True))
    spread = sum((t - middle) ** 2 for t in times)
    return slope, base, 1 - left / spread if spread else 0.0
