"""A hundred jobs as one query, against one job: the first record, the others, the ledgers."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from bench.streams.pipeline import Probe, running
from bench.streams.results import Bar, Part, median, ratio
from bench.streams.setting import Setting
from millrace.agent.progress import progress_at
from millrace.machine import Folders

LIMIT_SECONDS = 240.0
#: A boundary comes every 20 s.
BOUNDARY_SECONDS = 60.0
LATER_SECONDS, TIMES = 6.0, 3.0
KINDS = ("one job", "passing on", "with a filter each")
RECORD = b'{"id": 1, "speed": 88.5}'


def text(jobs: int, *, filtered: bool) -> str:
    """Return the file of a chain whose streams inside are transient."""
    where = " WHERE speed > {number}.5 - 101" if filtered else ""
    lines = ["pipeline: bench", "sites: {here: {broker: kafka}}"]
    lines += ["defaults: {streams: {schema: {id: long, speed: double}}, jobs: {checkpoint: 20 s}}"]
    lines += ["streams:"]
    lines += [f"  t{n}: {{transient: {str(0 < n < jobs).lower()}}}" for n in range(jobs + 1)]
    lines += ["jobs:"]
    for number in range(jobs):
        sql = f"SELECT * FROM t{number}{where.format(number=number)}"
        lines.append(f'  j{number}: {{from: t{number}, to: t{number + 1}, sql: "{sql}"}}')
    return "\n".join(lines) + "\n"


def measure(setting: Setting) -> Part:
    """Run one job, a chain and a chain of filters by turns."""
    part = Part("fused")
    longest = max(setting.chain)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for number in range(setting.runs):
            for kind in KINDS:
                jobs = 1 if kind == "one job" else longest
                place = Path(folder) / f"{number}-{kind.replace(' ', '-')}"
                run = _run(text(jobs, filtered=kind == KINDS[2]), jobs, place, setting)
                part.runs.append({"round": number, "kind": kind, **run})
                setting.say(f"{kind}: through after {run['through_seconds']:.1f} s")
    _judge(part, longest)
    return part


def _run(file: str, jobs: int, place: Path, setting: Setting) -> dict[str, Any]:
    with running(file, place) as pipeline:
        address = pipeline.broker(["t0", f"t{jobs}"], LIMIT_SECONDS)
        probe = Probe(address, "t0", f"t{jobs}")
        try:
            through = probe.through(RECORD, LIMIT_SECONDS) - pipeline.began
            hops = [_hop(probe) for _ in range(setting.chain_records * 5)]
        finally:
            probe.close()
        closed = _closed(pipeline.home, jobs, len(hops) + 1)
        pipeline.check()
    return {
        "through_seconds": through,
        "p50_seconds": median(hops),
        "hops_seconds": hops,
        "ledgers": closed,
    }


def _closed(home: Path, jobs: int, sent: int) -> int:
    """How many ledgers have all records that were sent, after the next boundary."""
    until, found = time.monotonic() + BOUNDARY_SECONDS, 0
    while found < jobs and time.monotonic() < until:
        time.sleep(1)
        every = [progress.fates for progress in progress_at(Folders.of(home), "bench").values()]
        found = sum(fates.read == fates.used + (fates.filtered or 0) == sent for fates in every)
    return found


def _hop(probe: Probe) -> float:
    began = time.monotonic()
    return probe.through(RECORD, 60.0) - began


def _judge(part: Part, longest: int) -> None:
    figures = ("through_seconds", "p50_seconds", "ledgers")
    for kind in KINDS:
        runs = [run for run in part.runs if run["kind"] == kind]
        part.rows[kind] = {name: median([run[name] for run in runs]) for name in figures}
    one = part.rows[KINDS[0]]
    for kind in KINDS[1:]:
        row = part.rows[kind]
        later = (row["through_seconds"] or 0.0) - (one["through_seconds"] or 0.0)
        times = ratio(row["p50_seconds"], one["p50_seconds"])
        part.bars += [
            Bar(f"{longest} jobs {kind}: first record later than of one, s", later, LATER_SECONDS),
            Bar(f"{longest} jobs {kind}: p50 against one job", times, TIMES),
            Bar(
                f"{longest} jobs {kind}: ledgers that close", row["ledgers"], longest, at_most=False
            ),
        ]
