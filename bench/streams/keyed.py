"""What a record costs with a thousand to a million keys, of which each batch holds a thousand."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.streams.pipeline import spent
from bench.streams.rates import LIMIT_SECONDS, figures
from bench.streams.results import Bar, Part, median, ratio
from bench.streams.setting import Setting
from bench.streams.systems import Millrace, Rig, Work, rig
from bench.streams.topics import KEYS, End, fill
from millrace.ports import JobState

#: What the last may cost in terms of the first.
MOST = 1.5
WARM_UPS, RUNS = 1, 3


def measure(setting: Setting) -> Part:
    """Give state to all keys first, then take the time of records of a thousand of them."""
    part = Part("keyed")
    with rig(by_hand=False) as here:
        for number in range(WARM_UPS + min(RUNS, setting.runs)):
            for keys in setting.keys if number >= WARM_UPS else setting.keys[:1]:
                run = _run(here, keys, setting.records)
                part.runs.append({"round": number, "warm_up": number < WARM_UPS, **run})
                setting.say(f"{keys:,} keys: {run['rate']:,.0f} records/s")
    for keys in setting.keys:
        runs = [run for run in part.runs if run["keys"] == keys and not run["warm_up"]]
        part.rows[f"{keys:,} keys"] = {
            name: median([run[name] for run in runs])
            for name in ("us_per_record", "cpu_us_per_record", "records/s", "state_mb")
        }
    first, last = (part.rows[f"{keys:,} keys"] for keys in (setting.keys[0], setting.keys[-1]))
    cost = ratio(last["us_per_record"], first["us_per_record"])
    part.bars.append(Bar("cost of a record, most keys against least", cost, MOST))
    return part


def _run(here: Rig, keys: int, count: int) -> dict[str, Any]:
    (system,) = here.systems
    if not isinstance(system, Millrace):
        raise TypeError(system)
    name = here.name("keyed")
    work = Work(name, "keyed", "drain", f"in-{name}", f"out-{name}")
    here.make(work.source, work.sink)
    end = End(here.boot, work.sink)
    end.count()
    system.prepare(work)
    try:
        fill(here.boot, work.source, keys, _among(keys, 1))
        system.start(work)
        end.wait(keys, LIMIT_SECONDS, lambda: system.check(work))
        _over(system, work)
        fill(here.boot, work.source, count, _among(keys, keys // KEYS))
        used, began = spent(system.pid), time.monotonic()
        system.start(work)
        arrival = end.wait(keys + count, LIMIT_SECONDS, lambda: system.check(work))
        cpu = spent(system.pid) - used
        _over(system, work)
    finally:
        system.stop(work)
        end.close()
        here.drop(work.source, work.sink)
    found = figures(arrival.last - began, count)
    return {
        "system": system.name,
        "kind": f"{keys:,} keys",
        "mode": "drain",
        "keys": keys,
        **found,
        "records/s": found["rate"],
        "us_per_record": found["seconds"] / count * 1e6,
        "cpu_us_per_record": cpu / count * 1e6,
        "state_mb": _size(system.checkpoint(work) / "state") / 1e6,
    }


def _among(keys: int, apart: int) -> Callable[[int], bytes]:
    """Return what makes records of keys that lie so far apart, one after another."""

    def made(number: int) -> bytes:
        road = f"A4-km-{number * apart % keys}"
        at = "2026-01-01T00:00:00.000Z"
        return json.dumps({"id": number, "speed": 88.5, "at": at, "road": road}).encode()

    return made


def _over(system: Millrace, work: Work) -> None:
    until = time.monotonic() + LIMIT_SECONDS
    while system.engine.status()[work.name].state is not JobState.ENDED:
        system.check(work)
        if time.monotonic() > until:
            raise TimeoutError(work.name)
        time.sleep(0.05)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
