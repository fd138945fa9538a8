"""Fail when less than 95 % of the branches of the pure heart are run by the tests."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

FLOOR = 95.0
PACKAGES = ("spec", "plan", "model")


def main() -> int:
    """Print the share of branches per package; 1 when one is below the floor."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "coverage.json"
        subprocess.run(["coverage", "json", "-q", "-o", str(out)], check=True, timeout=120)
        files = json.loads(out.read_text())["files"]
    failed = False
    for package in PACKAGES:
        totals = [
            found["summary"]
            for name, found in files.items()
            if f"millrace/{package}/" in name.replace("\\", "/")
        ]
        branches = sum(total["num_branches"] for total in totals)
        covered = sum(total["covered_branches"] for total in totals)
        share = 100.0 * covered / branches if branches else 0.0
        failed |= share < FLOOR
        print(f"branches of millrace.{package}: {share:.1f} % ({covered} of {branches})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
