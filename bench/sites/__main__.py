"""Measures many sites: chains over six of them, and what a coordinator costs; JSON, pictures."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

from bench.sites.figures import SitePart
from bench.sites.parts import NAMES
from bench.sites.plots import draw
from bench.sites.setting import Setting

_HELP = """\
chains     deploy, modify and delete chains of jobs over six real sites
store      size of the state of a thousand jobs (on fakes)
unchanged  apply with no change on a thousand jobs (on fakes)
api        a page of jobs at 50 requests/s while jobs are changed (on fakes)
idle       a coordinator with nothing to do (on fakes)"""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.sites",
        description=f"{__doc__}\n\n{_HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    usual = Setting()
    parser.add_argument("part", nargs="?", default="all", choices=[*NAMES, "all"])
    parser.add_argument("--runs", type=int, default=usual.runs, help="of chains (10)")
    parser.add_argument("--sizes", type=_sizes, default=usual.sizes, help="of chains: 1,10,...")
    parser.add_argument("--seed", type=int, default=usual.seed, help="of where jobs are placed")
    parser.add_argument("--jobs", type=int, default=usual.jobs, help="on fakes (1000)")
    parser.add_argument("--seconds", type=float, help="of api (20) and idle (30)")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="for the files")
    return parser.parse_args()


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(sorted({int(size) for size in text.split(",")}))


def _setting(arguments: argparse.Namespace) -> Setting:
    usual = Setting()
    return Setting(
        runs=arguments.runs,
        sizes=arguments.sizes,
        seed=arguments.seed,
        jobs=arguments.jobs,
        idle_jobs=min(usual.idle_jobs, arguments.jobs),
        api_seconds=arguments.seconds or usual.api_seconds,
        idle_seconds=arguments.seconds or usual.idle_seconds,
    )


def _measured(name: str, setting: Setting) -> SitePart:
    """Measure a part; a part imports what only it needs."""
    before = os.getloadavg()[0]
    part: SitePart = importlib.import_module(f"bench.sites.{name}").measure(setting)
    part.notes.append(f"load of the machine before {before:.1f}, after {os.getloadavg()[0]:.1f}")
    return part


def main() -> int:
    """Measure the parts that are asked for; 1 when a bar is missed or a part could not be done."""
    arguments = _arguments()
    setting, missed = _setting(arguments), 0
    for name in NAMES if arguments.part == "all" else (arguments.part,):
        print(f"measuring {name}", file=sys.stderr, flush=True)
        try:
            part = _measured(name, setting)
        except Exception as error:  # the other parts are still worth their time
            print(f"\n== {name}\n  FAILED {type(error).__name__}: {error}")
            missed += 1
            continue
        part.show()
        print(f"  figures in {part.write(arguments.out)}, picture in {draw(part, arguments.out)}")
        missed += sum(not bar.met for bar in part.bars)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
