"""Runs the benchmark that a part belongs to: `python -m bench PART`, or all of both."""

from __future__ import annotations

import subprocess
import sys

from bench.sites.parts import NAMES


def main() -> int:
    """Run one or both; 1 when something missed its bar."""
    part, *more = sys.argv[1:] or ["all"]
    if part == "all":
        chosen = ["bench.streams", "bench.sites"]
    else:
        chosen = ["bench.sites" if part in NAMES else "bench.streams"]
    ends = [subprocess.call([sys.executable, "-m", one, part, *more]) for one in chosen]
    return max(ends)


if __name__ == "__main__":
    sys.exit(main())
