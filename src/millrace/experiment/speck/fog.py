"""Fog against cloud: the same jobs near their data, and far from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from typing import Any, Final

from millrace.errors import OperationFailed
from millrace.experiment.declaration import Cell, Declaration, number
from millrace.experiment.figures import apart, gain, spreads
from millrace.experiment.file import parsed
from millrace.experiment.links.link import seconds
from millrace.experiment.port import Around, Measuring
from millrace.experiment.results import Result
from millrace.experiment.sites import loaded, local_sites
from millrace.experiment.speck.drive import Traffic
from millrace.experiment.speck.traffic import EDGES, PIPELINE, Layout, Scenario

_COLOURS: Final = {"job3": ("#0072b2", "o"), "job4": ("#d55e00", "s")}
_STYLES: Final = ("-", ":", "--", "-.")
#: What one line of the picture goes over.
_COMPARED: Final = ("scenario", "rate")
UP_SECONDS: Final = 180.0


class FogCloud:
    """See the port `Experiment`."""

    @property
    def declared(self) -> Declaration:
        """What the paper did, on sites of this machine."""
        file = resources.files("millrace.experiment.speck") / "fog.yaml"
        return parsed(file.read_text("utf-8"), file.name)

    @contextmanager
    def opened(self, cell: Cell, around: Around) -> Iterator[Measuring]:
        """Start the sites and the jobs; see the port."""
        layout = _layout(cell)
        latency = seconds(cell["latency"], "latency")
        links = tuple(replace(link, latency=latency) for link in around.declared.links)
        here = replace(around, declared=replace(around.declared, links=links))
        with local_sites(here) as local:
            around.say(f"starting {layout.scenario} on {len(layout.sites)} sites")
            document = layout.document()
            local.apply(document)
            around.until(lambda: local.running(PIPELINE), UP_SECONDS, "jobs don't run")
            yield Traffic(local, layout, loaded(document)).measured

    def findings(self, results: Sequence[Result]) -> list[str]:
        """Tell D for jobs 3 and 4 by rate, against the cloud and against job 3 elsewhere."""
        found = [
            _told(job, other, name, mine)
            for name, mine in apart(results, _COMPARED).items()
            for other in (Scenario.CLOUD, Scenario.REMOTE)
            for job in _COLOURS
            if gains_of(mine, job, other)
        ]
        return found or ["Only one scenario was run: nothing to compare."]

    def draw(self, results: Sequence[Result], axes: Any) -> None:
        """Draw D over the rate, of the means and faintly of each repeat; see the port."""
        for place, (name, mine) in enumerate(apart(results, _COMPARED).items()):
            for job, (colour, mark) in _COLOURS.items():
                for other in (Scenario.CLOUD, Scenario.REMOTE):
                    gains = gains_of(mine, job, other)
                    if not gains or (other is Scenario.REMOTE and job != "job3"):
                        continue
                    label = f"job {job[-1]}: fog against {other}" + (f", {name}" if name else "")
                    style = _STYLES[(2 * place + (other is Scenario.REMOTE)) % len(_STYLES)]
                    rates, values = list(gains), list(gains.values())
                    axes.plot(rates, values, style, marker=mark, color=colour, label=label)
                    for one in _by_seed(mine, job, other):
                        axes.plot(list(one), list(one.values()), mark, color=colour, alpha=0.3)
        axes.axhline(0, color="#7f7f7f", linewidth=1)
        axes.set(xlabel="records a second at each edge", ylabel="D, % (above 0: fog is ahead)")
        axes.legend(fontsize="small")


def _by_seed(results: Sequence[Result], job: str, other: Scenario) -> list[dict[float, float]]:
    """D of each repeat alone."""
    seeds = sorted({result.seed for result in results})
    return [gains_of([r for r in results if r.seed == seed], job, other) for seed in seeds]


def gains_of(results: Sequence[Result], job: str, other: Scenario) -> dict[float, float]:
    """Return D by rate, of the means over runs."""

    def means(scenario: Scenario) -> dict[float, float]:
        mine = [result for result in results if result.cell["scenario"] == scenario.value]
        found = spreads(mine, job, lambda result: float(result.cell["rate"]))
        return {rate: spread.mean for rate, spread in sorted(found.items())}

    fog, far = means(Scenario.FOG), means(other)
    return {rate: gain(fog[rate], far[rate]) for rate in fog if rate in far and fog[rate]}


def _told(job: str, other: Scenario, name: str, results: Sequence[Result]) -> str:
    gains = gains_of(results, job, other)
    by_rate = ", ".join(f"{value:+.1f} % at {rate:g}/s" for rate, value in gains.items())
    lag = {
        scenario: spreads(
            [r for r in results if r.cell["scenario"] == scenario.value],
            f"lag{job[-1]}",
            lambda result: float(result.cell["rate"]),
        )
        for scenario in (Scenario.FOG, other)
    }
    low = min(gains)
    times = " and ".join(
        f"{found[low].mean:.0f} ms in {scenario}" for scenario, found in lag.items() if low in found
    )
    return (
        f"Job {job[-1]}, fog against {other}{f' ({name})' if name else ''}: D is {by_rate}. "
        f"A vehicle is in its result after {times} at {low:g}/s (median)."
    )


def _layout(cell: Cell) -> Layout:
    try:
        scenario = Scenario(str(cell["scenario"]))
    except ValueError:
        known = ", ".join(Scenario)
        raise OperationFailed(
            "bad-factor", f"scenario {cell['scenario']!r} is not known", f"use {known}"
        ) from None
    edges = int(number(cell, "edges", 1, len(EDGES)))
    return Layout.of(scenario, edges, int(number(cell, "sensors", edges)))


EXPERIMENT: Final = FogCloud()
