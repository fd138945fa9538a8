"""Says how long each folder of tests took of the last `make test`, by the reports in build/tests.

Tests run side by side: a folder has that part of a phase's time by the clock that it has of all the
seconds of its tests. Beginnings may be named: `python scripts/shares.py coordinator api/test_fuzz`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

REPORTS = Path("build/tests")
MODULES = 12


def seconds_of(report: Path) -> tuple[float, dict[str, float]]:
    """Return how long a phase took, and how much of it belongs to each module."""
    (suite,) = ElementTree.parse(report).getroot()  # noqa: S314 - pytest wrote it
    spent: dict[str, float] = defaultdict(float)
    for case in suite.iter("testcase"):
        spent[_module(case.get("classname", ""))] += float(case.get("time", "0"))
    whole, total = float(suite.get("time", "0")), sum(spent.values()) or 1.0
    return whole, {module: whole * of / total for module, of in spent.items()}


def _module(name: str) -> str:
    """`tests.api.test_events.TestX` as `api/test_events`."""
    parts = [part for part in name.split(".") if part != "tests" and not part[:1].isupper()]
    return "/".join(parts)


def show(found: Mapping[str, float], most: int | None = None) -> None:
    """Print seconds and names, the longest first."""
    for name, seconds in sorted(found.items(), key=lambda item: -item[1])[:most]:
        print(f"{seconds:8.0f} s  {name}")


def main(chosen: tuple[str, ...]) -> int:
    """Print the folders; with beginnings, the sum of their modules and the longest of these."""
    modules: dict[str, float] = defaultdict(float)
    for report in sorted(REPORTS.glob("*.xml")):
        whole, spent = seconds_of(report)
        print(f"{whole:8.0f} s  phase {report.stem}")
        for module, seconds in spent.items():
            modules[module] += seconds
    if not modules:
        print(f"there are no reports in {REPORTS}: run `make test` first", file=sys.stderr)
        return 1
    if not chosen:
        folders: dict[str, float] = defaultdict(float)
        for module, seconds in modules.items():
            folders[module.split("/")[0]] += seconds
        show(folders)
        return 0
    part = {module: seconds for module, seconds in modules.items() if module.startswith(chosen)}
    print(f"{sum(part.values()):8.0f} s  {', '.join(chosen)}, of which:")
    show(part, MODULES)
    return 0


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:])))
