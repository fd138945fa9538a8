"""Measures Millrace's streams against the same work written by hand; JSON and pictures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench.streams import chain, fused, keyed, latency, map_rate, start, state, throughput, traffic
from bench.streams.plots import draw
from bench.streams.results import Part
from bench.streams.setting import Setting, quick

PARTS: dict[str, Callable[[Setting], Part]] = {
    "latency": latency.measure,
    "throughput": throughput.measure,
    "map": map_rate.measure,
    "chain": chain.measure,
    "start": start.measure,
    "fused": fused.measure,
    "windows": state.measure_windows,
    "promises": state.measure_promises,
    "keyed": keyed.measure,
    "updates": latency.measure_updates,
    "traffic": traffic.measure,
}


def main() -> int:
    """Measure the parts that are asked for; 1 when a bar is missed or a part could not be done."""
    parser = argparse.ArgumentParser(prog="python -m bench.streams", description=__doc__)
    parser.add_argument("part", nargs="?", default="all", choices=[*PARTS, "all"])
    parser.add_argument("--runs", type=int, help="runs of each system, by turns (5)")
    parser.add_argument("--quick", action="store_true", help="small sizes: does all of it work?")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="for the files")
    arguments = parser.parse_args()
    setting = quick() if arguments.quick else Setting()
    if arguments.runs is not None:
        setting = replace(setting, runs=arguments.runs)
    chosen = PARTS if arguments.part == "all" else {arguments.part: PARTS[arguments.part]}
    missed = 0
    for name, measure in chosen.items():
        print(f"measuring {name}", file=sys.stderr, flush=True)
        try:
            part = measure(setting)
        except Exception as error:  # the other parts are still worth their time
            print(f"\n== {name}\n  FAILED {type(error).__name__}: {error}")
            missed += 1
            continue
        if arguments.quick:
            part.notes.append("quick sizes: these figures prove nothing")
        part.show()
        print(f"  figures in {part.write(arguments.out)}, picture in {draw(part, arguments.out)}")
        missed += sum(not bar.met for bar in part.bars)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
