"""How many records a second, of those already in the topic, in both modes."""

from __future__ import annotations

from bench.streams.rates import of, timed
from bench.streams.results import DESIGN, Bar, Part, ratio
from bench.streams.setting import Setting
from bench.streams.systems import rig
from bench.streams.topics import fill

MODES = ("real-time", "drain")
LEAST = 0.95


def measure(setting: Setting) -> Part:
    """Run both systems by turns, with rounds before that only warm up."""
    part = Part("throughput")
    with rig() as here:
        here.make("raw")
        fill(here.boot, "raw", setting.records)
        for mode in MODES:
            for number in range(setting.warm_ups + setting.runs):
                for system in here.turn(number):
                    run = timed(here, system, "sql", mode, "raw", setting.records)
                    run |= {"warm_up": number < setting.warm_ups, "round": number}
                    part.runs.append(run)
                    setting.say(f"{mode} {system.name} {run['rate']:,.0f} records/s")
    for mode in MODES:
        _judge(part, mode)
    return part


def _judge(part: Part, mode: str) -> None:
    for system in ("millrace", "by hand"):
        part.rows[f"{mode}, {system}"] = {
            "records/s": of(part.runs, system, mode, "rate"),
            "start s": of(part.runs, system, mode, "start_seconds"),
            "first out s": of(part.runs, system, mode, "first_seconds"),
            "cpu s": of(part.runs, system, mode, "cpu_seconds"),
            "flow/s": of(part.runs, system, mode, "flow_rate"),
        }
    part.rows[f"{mode}, by hand, as designed"] = {"records/s": DESIGN[f"{mode}, records/s"]}
    rates = [of(part.runs, system, mode, "rate") for system in ("millrace", "by hand")]
    part.bars.append(Bar(f"{mode}: rate against by hand", ratio(*rates), LEAST, at_most=False))
