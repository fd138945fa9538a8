"""Measures streams over MQTT against a plain bridge, and chains of jobs against Flink's."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from pathlib import Path

from bench.crossing.figures import CrossingPart, draw
from bench.crossing.parts import NAMES
from bench.crossing.setting import Setting

_HELP = """\
mqtt   messages from MQTT through Spark to MQTT, against a bridge of paho and against Kafka
flink  a chain of jobs on one Kafka, on Spark and on a Flink that is asked by REST"""


def _arguments() -> argparse.Namespace:
    usual = Setting()
    parser = argparse.ArgumentParser(
        prog="python -m bench.crossing",
        description=f"{__doc__}\n\n{_HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", nargs="?", default="all", choices=[*NAMES, "all"])
    parser.add_argument("--runs", type=int, default=usual.runs, help="of each system, by turns (3)")
    parser.add_argument("--messages", type=int, default=usual.messages, help="of mqtt (100000)")
    parser.add_argument("--warm-up", type=int, default=usual.warm_up, help="of mqtt (10000)")
    parser.add_argument("--rate", type=int, default=usual.rate, help="of mqtt's latency (500)")
    parser.add_argument("--seconds", type=int, default=usual.seconds, help="of that (20)")
    parser.add_argument("--jobs", type=int, default=usual.jobs, help="of flink's chain (100)")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="for the files")
    return parser.parse_args()


def _measured(name: str, setting: Setting) -> CrossingPart:
    """Measure a part; a part imports what only it needs."""
    before = os.getloadavg()[0]
    part: CrossingPart = importlib.import_module(f"bench.crossing.{name}").measure(setting)
    part.notes.append(f"load of the machine before {before:.1f}, after {os.getloadavg()[0]:.1f}")
    return part


def main() -> int:
    """Measure the parts that are asked for; 1 when a bar is missed or a part could not be done."""
    given = vars(_arguments())
    # Who ends it wants all that it started to end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen, out = given.pop("part"), given.pop("out")
    setting, missed = Setting(**given), 0
    for name in NAMES if chosen == "all" else (chosen,):
        print(f"measuring {name}", file=sys.stderr, flush=True)
        try:
            part = _measured(name, setting)
        except Exception as error:  # the other part is still worth its time
            print(f"\n== {name}\n  FAILED {type(error).__name__}: {error}")
            missed += 1
            continue
        part.show()
        print(f"  figures in {part.write(out)}, picture in {draw(part, out)}")
        missed += sum(not bar.met for bar in part.bars)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
