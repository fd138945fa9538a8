"""How long validating and planning take, and how much memory: `make bench`.

Every case runs in a process of its own, several times; the median counts. The bars are those of
the project; the exit code says whether all were met.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPEATS = 5
OUT = Path("build/bench/language.json")


def written_out(jobs: int, *, changed: bool = False) -> str:
    """Return a chain of jobs written out; half of them differ when `changed`."""
    lines = [
        "pipeline: chain",
        "sites:",
        "  north: {broker: kafka}",
        "  south: {broker: kafka}",
        "streams:",
    ]
    for number in range(jobs + 1):
        lines += [f"  t{number}:", "    site: north", "    partitions: 2", "    format: json"]
    lines.append("jobs:")
    for number in range(jobs):
        other = changed and number % 2 == 0
        lines += [
            f"  j{number}:",
            f"    site: {'south' if other and number % 4 == 0 else 'north'}",
            f"    from: t{number}",
            f"    to: t{number + 1}",
            f"    sql: SELECT * FROM t{number} WHERE speed > {number + int(other)}",
        ]
    return "\n".join(lines) + "\n"


def lines_long(lines: int) -> str:
    """Return a valid file of this many lines."""
    return written_out(lines // 9)


def work(case: str, files: list[str]) -> dict[str, Any]:
    """Do one case in this process; the imports are not part of it."""
    from millrace.model.status import Observed
    from millrace.plan import plan
    from millrace.spec import load

    start = time.perf_counter()
    loaded = [load(file).required() for file in files]
    validated = time.perf_counter() - start
    steps = 0
    if case == "plan":
        steps = len(plan(loaded[1], Observed(loaded[0]), {}).steps)
    return {
        "seconds": time.perf_counter() - start,
        "validate_seconds": validated,
        "steps": steps,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measured(case: str, files: list[Path]) -> dict[str, Any]:
    """Run a case REPEATS times in fresh processes."""
    runs = []
    for _ in range(REPEATS):
        done = subprocess.run(
            [sys.executable, __file__, "--work", case, *map(str, files)],
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
        )
        runs.append(json.loads(done.stdout))
    seconds = sorted(run["seconds"] for run in runs)
    return {
        "seconds": statistics.median(seconds),
        "min": seconds[0],
        "max": seconds[-1],
        "validate_seconds": statistics.median(run["validate_seconds"] for run in runs),
        "steps": runs[0]["steps"],
        "peak_mb": max(run["peak_mb"] for run in runs),
    }


def measure(folder: Path) -> dict[str, Any]:
    """Run all cases."""
    results: dict[str, Any] = {}
    for jobs in (1_000, 10_000):
        files = [folder / f"{jobs}-{name}.yaml" for name in ("old", "new")]
        files[0].write_text(written_out(jobs))
        files[1].write_text(written_out(jobs, changed=True))
        results[f"validate and plan, {jobs} jobs"] = measured("plan", files)
    long = folder / "long.yaml"
    long.write_text(lines_long(15_000))
    results[f"validate, {len(long.read_text().splitlines())} lines"] = measured("validate", [long])
    results["import millrace"] = imported()
    return results


def imported() -> dict[str, Any]:
    """Measure `import millrace` in fresh processes, less an empty one."""
    code = "import time; s = time.perf_counter(); import millrace; print(time.perf_counter() - s)"
    runs = sorted(
        float(
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
            ).stdout
        )
        for _ in range(REPEATS)
    )
    return {"seconds": statistics.median(runs), "min": runs[0], "max": runs[-1], "peak_mb": 0.0}


def bars(results: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Return what must be reached: name, value, limit."""
    thousand = results["validate and plan, 1000 jobs"]["seconds"]
    ten = results["validate and plan, 10000 jobs"]["seconds"]
    lines = next(value for name, value in results.items() if name.endswith("lines"))
    return [
        ("1,000 jobs, half of them changed: seconds", thousand, 1.0),
        ("10,000 jobs against 1,000: times", ten / thousand, 14.0),
        ("a file of 15,000 lines: seconds", lines["seconds"], 2.0),
        ("import millrace: seconds", results["import millrace"]["seconds"], 0.3),
    ]


def report() -> int:
    """Measure, print a table, keep the figures; 1 when a bar is missed."""
    with tempfile.TemporaryDirectory() as folder:
        results = measure(Path(folder))
    for name, found in results.items():
        print(
            f"{name:36} median {found['seconds']:7.3f} s  ({found['min']:.3f} to "
            f"{found['max']:.3f})  peak {found['peak_mb']:6.0f} MB"
        )
    missed = 0
    for name, value, limit in bars(results):
        met = value <= limit
        missed += not met
        print(f"{'met   ' if met else 'MISSED'} {name}: {value:.3f} (at most {limit:g})")
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"machine": machine, "results": results}, indent=2) + "\n")
    print(f"figures in {OUT}")
    return 1 if missed else 0


def main() -> int:
    """Measure everything, or do the work of one case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        print(json.dumps(work(arguments.work, arguments.files)))
        return 0
    return report()


if __name__ == "__main__":
    sys.exit(main())
