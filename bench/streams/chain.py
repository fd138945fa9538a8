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
from bench.streams.systems import ByHand, Work, hand_driver
from bench.streams.topics import create
from millrace.brokers.kafka import ManagedKafka
from millrace.machine import Folders, fetch_jars, find_java

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
            jobs = max(setting.chain)
            hand = _by_hand(jobs, Path(folder) / f"{number}-hand", setting)
            part.runs.append({"round": number, "jobs": jobs, "system": "by hand", **hand})
            setting.say(f"{jobs} by hand: through after {hand['through_seconds']:.1f} s")
    _judge(part, setting)
    return part


def _by_hand(jobs: int, place: Path, setting: Setting) -> dict[str, Any]:
    """The longest chain as one writes it by hand: a driver, and one query started after another."""
    place.mkdir()
    began, cache = time.monotonic(), Folders.of().cache
    java = find_java(cache)
    jars = fetch_jars(["kafka", "spark-kafka"], java, cache)
    kafka = ManagedKafka(place / "kafka", java, jars[0])
    kafka.launch()
    try:
        with hand_driver(place, java, jars[1]) as driver:
            kafka.start()
            boot = kafka.status().clients["java"]["bootstrap.servers"]
            create(boot, [f"t{number}" for number in range(jobs + 1)], 1)
            up = driver.hear(LIMIT_SECONDS)[0] - began
            hand = ByHand(driver, boot, place / "jobs")
            for number in range(jobs):
                source, sink = f"t{number}", f"t{number + 1}"
                hand.start(Work(f"j{number}", "pass", "real-time", source, sink, partitions=1))
            probe = Probe(boot, "t0", f"t{jobs}")
            try:
                through = probe.through(b"x" * 100, LIMIT_SECONDS) - began
                hops = [_hop(probe) for _ in range(setting.chain_records)]
            finally:
                probe.close()
    finally:
        kafka.stop()
    return {
        "through_seconds": through,
        "after_driver_seconds": through - up,
        "hops_seconds": hops,
        "p50_seconds": median(hops),
    }


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
        part.rows[f"{jobs} jobs"] = _medians([
            run for run in part.runs if run["jobs"] == jobs and "system" not in run
        ])  # fmt: skip
    longest = max(setting.chain)
    part.rows[f"{longest} jobs, by hand"] = _medians([r for r in part.runs if "system" in r])
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


def _medians(runs: list[dict[str, Any]]) -> dict[str, float | None]:
    named = {figure: median([run.get(figure) for run in runs]) for figure in _FIGURES}
    return {name: value for name, value in named.items() if value is not None}


def line(lengths: list[int], times: list[float]) -> tuple[float, float, float]:
    """Return slope, base and R2 of the straight line through the points."""
    slope, base = (float(found) for found in np.polyfit(lengths, times, 1))
    middle = sum(times) / len(times)
    left = sum((t - base - slope * n) ** 2 for n, t in zip(lengths, times, strict=True))
    spread = sum((t - middle) ** 2 for t in times)
    return slope, base, 1 - left / spread if spread else 0.0
