"""Runs the benchmark that a part belongs to: `python -m bench PART`, or all of them."""

from __future__ import annotations

import subprocess
import sys

from bench.crossing.parts import NAMES as CROSSING
from bench.sites.parts import NAMES


def main() -> int:
    """Run one or all; 1 when something missed its bar."""
    part, *more = sys.argv[1:] or ["all"]
    if part == "all":
        chosen = ["bench.streams", "bench.sites", "bench.spool", "bench.crossing"]
    elif part in CROSSING:
        chosen = ["bench.crossing"]
    elif part == "spool":
        chosen = ["bench.spool"]
    else:
        chosen = ["bench.sites" if part in NAMES else "bench.streams"]
    ends = [subprocess.call([sys.executable, "-m", one, part, *more]) for one in chosen]
    return max(ends)


if __name__ == "__main__":
    sys.exit(main())
