"""What it costs to apply a file that changes nothing, beyond reading and planning it."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

from bench.sites.figures import SitePart
from bench.sites.files import many
from bench.sites.served import Served, serving
from bench.sites.setting import Setting
from bench.sites.store import loaded
from bench.streams.results import Bar
from millrace.model.pipeline import Pipeline
from millrace.model.status import Observed
from millrace.plan import plan

LIMIT_SECONDS = 0.7
ROUNDS = 5


def measure(setting: Setting) -> SitePart:
    """Apply many jobs, then the same again, by turns with reading and planning alone."""
    part, document = SitePart("unchanged"), many(setting.jobs, setting.sites, setting.seed)
    there = loaded(document)
    with serving() as served:
        setting.say(f"applying {setting.jobs} jobs")
        served.apply(document)
        for number in range(ROUNDS):
            alone, steps = _timed(lambda: _planned(document, there))
            before = served.calls()
            whole, total = _timed(lambda: _again(served, document))
            calls = served.calls()
            run = {
                "round": number,
                "validate_and_plan_seconds": alone,
                "apply_seconds": whole,
                "beyond_seconds": whole - alone,
                "steps": total + steps,
                "calls": {
                    k: n - before.get(k, 0) for k, n in calls.items() if n > before.get(k, 0)
                },
            }
            part.runs.append(run)
            setting.say(f"apply {whole:.2f} s, validate and plan alone {alone:.2f} s")
    for name in ("validate_and_plan_seconds", "apply_seconds", "beyond_seconds"):
        values = [run[name] for run in part.runs]
        part.rows[name.replace("_", " ")] = {
            "median": statistics.median(values), "least": min(values), "most": max(values),
        }  # fmt: skip
    beyond = part.rows["beyond seconds"]["median"]
    changes = sum(
        count for run in part.runs for name, count in run["calls"].items()
        if not name.endswith(".status")
    )  # fmt: skip
    part.bars += [
        Bar("steps", float(sum(run["steps"] for run in part.runs)), 0.0),
        Bar("calls of fakes beyond status", float(changes), 0.0),
        Bar("apply beyond validate and plan, s", beyond, LIMIT_SECONDS),
    ]
    part.notes.append("apply is a request over REST, from its JSON to the answer")
    return part


def _timed(work: Callable[[], int]) -> tuple[float, int]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def _planned(document: dict[str, object], there: Pipeline) -> int:
    """Read the document and plan it against what is there; how many steps that are."""
    wanted = loaded(json.loads(json.dumps(document)))
    return len(plan(wanted, Observed(there), {}).steps)


def _again(served: Served, document: dict[str, object]) -> int:
    """Apply what is there already; how many steps that takes."""
    return int(str(served.apply(document)["total"]))
