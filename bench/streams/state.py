"""What windows, state, order and promises cost: records a second of what is in a topic."""

from __future__ import annotations

from collections.abc import Sequence

from bench.streams.peers import BYTEWAX, windowed
from bench.streams.rates import of, timed
from bench.streams.results import Bar, Part, ratio
from bench.streams.setting import Setting
from bench.streams.systems import Rig, rig
from bench.streams.topics import closing_record, fill, timed_record

#: The least that each must reach of another: by hand, or of another kind.
WINDOWS, EXACT, ONCE, PRESERVE = 0.95, 1 / 3, 0.5, 0.7
#: How far apart rates may be whatever the number of closed windows.
ALIKE = 0.8


def measure_windows(setting: Setting) -> Part:
    """Count in windows: Spark's own, the same by hand, and exact ones of several lengths."""
    part = Part("windows")
    exact_kinds = ("exact", "exact 100 s", "exact 1000 s")
    kinds = ("windows", "windows with dead letters", *exact_kinds)
    with rig() as here:
        here.make("timed")
        fill(here.boot, "timed", setting.records, timed_record, [closing_record()])
        _rounds(part, here, setting, kinds, "timed", by_hand=("windows",))
        for number in range(setting.runs):
            run = {"warm_up": False, "round": number}
            run |= windowed(here, "timed", setting.records)
            part.runs.append(run)
            setting.say(f"{run['system']} {run['rate']:,.0f} records/s")
    part.notes.append("by hand malformed records are lost; with dead letters ours reads twice")
    ours, hand = _rate(part, "windows"), _rate(part, "windows", "by hand")
    exact = [_rate(part, kind) for kind in exact_kinds]
    peer = of(part.runs, BYTEWAX, "drain", "rate")
    part.rows["windows, bytewax, 2 processes"] = {"records/s": peer}
    known = [rate for rate in exact if rate is not None]
    part.bars += [
        Bar("the engine's own against by hand", ratio(ours, hand), WINDOWS, at_most=False),
        Bar("exact against the engine's own", ratio(exact[0], ours), EXACT, at_most=False),
        Bar("exact against Bytewax", ratio(exact[0], peer), 1.0, at_most=False),
        Bar("exact: least against most, by length", ratio(min(known), max(known)), ALIKE,
            at_most=False),
    ]  # fmt: skip
    return part


def measure_promises(setting: Setting) -> Part:
    """No duplicates against the default, and the order kept against none in a farm."""
    part = Part("promises")
    kinds = ("sql", "once", "farm", "preserve")
    with rig(by_hand=False) as here:
        here.make("raw")
        fill(here.boot, "raw", setting.records)
        _rounds(part, here, setting, kinds, "raw")
    once = ratio(_rate(part, "once"), _rate(part, "sql"))
    order = ratio(_rate(part, "preserve"), _rate(part, "farm"))
    part.bars += [
        Bar("no-duplicates against the default", once, ONCE, at_most=False),
        Bar("order: preserve against none", order, PRESERVE, at_most=False),
    ]
    return part


def _rounds(
    part: Part,
    here: Rig,
    setting: Setting,
    kinds: Sequence[str],
    source: str,
    by_hand: Sequence[str] = (),
) -> None:
    """Run all kinds by turns."""
    for number in range(setting.warm_ups + setting.runs):
        for kind in kinds:
            for system in here.turn(number):
                if system.name == "by hand" and kind not in by_hand:
                    continue
                run = timed(here, system, kind, "drain", source, setting.records)
                run |= {"warm_up": number < setting.warm_ups, "round": number}
                part.runs.append(run)
                setting.say(f"{kind} {system.name} {run['rate']:,.0f} records/s")
    for kind in kinds:
        for system in here.systems:
            if system.name != "by hand" or kind in by_hand:
                part.rows[f"{kind}, {system.name}"] = {
                    "records/s": _rate(part, kind, system.name),
                    "cpu s": of(part.runs, system.name, "drain", "cpu_seconds", kind),
                    "start s": of(part.runs, system.name, "drain", "start_seconds", kind),
                }


def _rate(part: Part, kind: str, system: str = "millrace") -> float | None:
    return of(part.runs, system, "drain", "rate", kind)
