"""Figure 6 of SpecK: how long it takes to deploy, modify and delete chains of jobs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any, Final

from millrace.errors import OperationFailed
from millrace.experiment.declaration import Cell, Declaration, number
from millrace.experiment.figures import Spread, apart, fit_of_means, fitted, spreads
from millrace.experiment.file import parsed
from millrace.experiment.links.link import seconds
from millrace.experiment.matrix import Run
from millrace.experiment.port import Around, Measuring
from millrace.experiment.results import Result
from millrace.experiment.speck.chains import Chain, drawn
from millrace.experiment.speck.hosts import HOSTS, ChainHost

_LINES: Final = {"deploy": ("#009e73", "o"), "modify": ("#0072b2", "s"), "delete": ("#d55e00", "^")}

_STYLES: Final = ("-", ":", "--", "-.")
#: What one line of the picture goes over.
_COMPARED: Final = ("operation", "jobs")


class Figure6:
    """See the port `Experiment`."""

    @property
    def declared(self) -> Declaration:
        """What the paper did, on sites of this machine."""
        file = resources.files("millrace.experiment.speck") / "figure6.yaml"
        return parsed(file.read_text("utf-8"), file.name)

    @contextmanager
    def opened(self, cell: Cell, around: Around) -> Iterator[Measuring]:
        """Start the sites; see the port."""
        if cell["engine"] not in HOSTS:
            raise OperationFailed(
                "bad-factor", f"engine {cell['engine']!r} is not known", f"use {', '.join(HOSTS)}"
            )
        latency = seconds(cell["latency"], "latency")
        links = tuple(replace(link, latency=latency) for link in around.declared.links)
        here = replace(around, declared=replace(around.declared, links=links if latency else ()))
        every = around.declared.matrix["jobs"]
        longest = max(int(number({"jobs": jobs}, "jobs", 1)) for jobs in every)
        with HOSTS[str(cell["engine"])](cell, here) as host:
            yield _Chains(host, longest).measured

    def findings(self, results: Sequence[Result]) -> list[str]:
        """Tell the straight lines, and modify against deploy; see the port."""
        found = []
        for name, mine in apart(results, _COMPARED).items():
            points = {what: _by_jobs(mine, what) for what in _LINES}
            begin = f"{name}: to" if name else "To"
            found += [_line(begin, what, mine, points[what]) for what in _LINES if points[what]]
            common = points["deploy"].keys() & points["modify"].keys()
            if common:
                most = max(common)
                found.append(_compared(begin, most, points["deploy"][most], points["modify"][most]))
        return found

    def draw(self, results: Sequence[Result], axes: Any) -> None:
        """Draw means with the least and the most, and straight lines; see the port."""
        for place, (name, mine) in enumerate(apart(results, _COMPARED).items()):
            for what in _LINES:
                if points := _by_jobs(mine, what):
                    _draw_line(axes, what, name, points, _STYLES[place % len(_STYLES)])
        axes.set(xlabel="jobs", ylabel="seconds", xlim=(0, None), ylim=(0, None))
        axes.legend(fontsize="small")


def _draw_line(axes: Any, what: str, name: str, points: Mapping[float, Spread], style: str) -> None:
    colour, mark = _LINES[what]
    jobs, found = list(points), list(points.values())
    means = [spread.mean for spread in found]
    away = (
        [spread.mean - spread.least for spread in found],
        [spread.most - spread.mean for spread in found],
    )
    label = f"{what}, {name}" if name else what
    if (fit := fit_of_means(points)) is not None:
        ends = [min(jobs), max(jobs)]
        label += f": {fit.base:.2f} s + {fit.slope * 1000:.0f} ms a job, R2 {fit.r2:.3f}"
        axes.plot(ends, [fit.at(x) for x in ends], style, color=colour, linewidth=1)
    axes.errorbar(jobs, means, away, fmt=mark, color=colour, capsize=3, markersize=5, label=label)


@dataclass(slots=True)
class _Chains:
    """The runs on one set of sites."""

    host: ChainHost
    #: How many jobs the chain has of which some are modified.
    longest: int
    _long: tuple[int, Chain] | None = None

    def measured(self, run: Run) -> Mapping[str, float]:
        """Do one run."""
        return {**self._figures(run), "sites_used": len(self.host.sites)}

    def _figures(self, run: Run) -> Mapping[str, float]:
        jobs = int(number(run.cell, "jobs", 1))
        chance = random.Random(f"{run.seed}/{jobs}")  # noqa: S311 - places, no secrets
        if run.cell["operation"] == "modify":
            return self._modified(run.seed, jobs, chance)
        self._drop_long()
        chain = drawn(f"r{run.seed}n{jobs}", jobs, self.host.sites, chance)
        began = time.monotonic()
        deploy = _timed(lambda: self.host.deploy(chain))
        self.host.through(chain)
        through = time.monotonic() - began
        return {
            "deploy": deploy,
            "through": through,
            "delete": _timed(lambda: self.host.delete(chain)),
        }

    def _modified(self, seed: int, jobs: int, chance: random.Random) -> Mapping[str, float]:
        chain = self._long_chain(seed)
        chosen = chance.sample(range(len(chain.sites)), jobs)
        return {"modify": _timed(lambda: self.host.modify(chain, chosen))}

    def _long_chain(self, seed: int) -> Chain:
        """The longest chain of a seed, deployed when its jobs are first modified."""
        if self._long is None or self._long[0] != seed:
            self._drop_long()
            chance = random.Random(f"{seed}/long")  # noqa: S311 - places, no secrets
            chain = drawn(f"r{seed}long", self.longest, self.host.sites, chance)
            self.host.deploy(chain)
            self.host.through(chain)
            self._long = (seed, chain)
        return self._long[1]

    def _drop_long(self) -> None:
        if self._long is not None:
            self.host.delete(self._long[1])
            self._long = None


def _timed(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _by_jobs(results: Sequence[Result], what: str) -> dict[float, Spread]:
    found = spreads(results, what, lambda result: float(result.cell["jobs"]))
    return dict(sorted(found.items()))


def _line(begin: str, what: str, results: Sequence[Result], points: Mapping[float, Spread]) -> str:
    fit = fit_of_means(points)
    most = max(points)
    told = f"{begin} {what} {most:g} jobs takes {points[most].mean:.1f} s"
    if fit is None:
        return f"{told}."
    every = [result for result in results if what in result.values]
    all_runs = fitted(
        [float(result.cell["jobs"]) for result in every], [result.values[what] for result in every]
    )
    r2 = f"R2 {fit.r2:.3f} of the means" + (
        f", {all_runs.r2:.3f} of all runs" if all_runs is not None else ""
    )
    return (
        f"{told}; {fit.base:.2f} s and {fit.slope * 1000:.0f} ms for each job, {r2} "
        "(the paper: linear)."
    )


def _compared(begin: str, jobs: float, deploy: Spread, modify: Spread) -> str:
    if modify.least <= deploy.most and deploy.least <= modify.most:
        word = "differs less than runs do from the time"
    else:
        word = f"is {'faster' if modify.mean < deploy.mean else 'slower'} than"
    once = ", in one run of each" if deploy.count == modify.count == 1 else ""
    return (
        f"{begin} modify {jobs:g} jobs takes {modify.mean:.1f} s and {word} to deploy {jobs:g} "
        f"({deploy.mean:.1f} s): {modify.mean / deploy.mean:.2f} of it{once}. "
        "In the paper it is faster."
    )


EXPERIMENT: Final = Figure6()
