"""How many records a second through a Python function for each."""

from __future__ import annotations

from bench.streams.rates import looped, of, timed
from bench.streams.results import DESIGN, Bar, Part, ratio
from bench.streams.setting import Setting
from bench.streams.systems import rig
from bench.streams.topics import fill

LEAST = 0.90


def measure(setting: Setting) -> Part:
    """Run Millrace's `map`, mapInArrow by hand and the plain loop by turns."""
    part = Part("map")
    with rig() as here:
        here.make("raw")
        fill(here.boot, "raw", setting.records)
        for number in range(setting.warm_ups + setting.runs):
            turn = here.turn(number)
            runs = [timed(here, s, "map", "drain", "raw", setting.records) for s in turn]
            runs.append(looped(here, "raw", setting.records))
            for run in runs:
                run |= {"warm_up": number < setting.warm_ups, "round": number}
                setting.say(f"map {run['system']} {run['rate']:,.0f} records/s")
            part.runs += runs
    _judge(part)
    return part


def _judge(part: Part) -> None:
    for system in ("millrace", "by hand"):
        part.rows[f"map, {system}"] = {
            "records/s": of(part.runs, system, "drain", "rate"),
            "start s": of(part.runs, system, "drain", "start_seconds"),
            "first out s": of(part.runs, system, "drain", "first_seconds"),
            "cpu s": of(part.runs, system, "drain", "cpu_seconds"),
        }
    part.rows["mapInArrow, as designed"] = {"records/s": DESIGN["map in Arrow, records/s"]}
    loop = of(part.runs, "plain loop", "loop", "rate")
    part.rows["plain loop, one process"] = {"records/s": loop}
    ours = of(part.runs, "millrace", "drain", "rate")
    hand = of(part.runs, "by hand", "drain", "rate")
    part.bars += [
        Bar("map: rate against mapInArrow by hand", ratio(ours, hand), LEAST, at_most=False),
        Bar("map: rate against a plain loop", ratio(ours, loop), 1.0, at_most=False),
    ]
