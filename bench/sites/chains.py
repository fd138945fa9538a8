"""Chains of jobs over six sites: how long it takes to deploy, to modify and to delete them."""

from __future__ import annotations

import random
import time
from typing import Any

from bench.sites.figures import SitePart, by_size, fit_of_means
from bench.sites.files import Chain, document, drawn, one_at_each, site_names
from bench.sites.setting import Setting
from bench.sites.up import Up, up
from bench.streams.results import Bar
from millrace.experiment.figures import Fit, fitted

LINEAR, THROUGH_SECONDS = 0.95, 60.0
#: What is measured, in the order of a run.
WHATS = ("deploy", "through", "modify", "modified through", "delete")


class Campaign:
    """All runs on one coordinator; the sites stay up between them."""

    def __init__(self, coordinator: Up, setting: Setting, part: SitePart) -> None:
        self._up = coordinator
        self._setting = setting
        self._part = part
        self._sites = site_names(setting.sites)
        self._base = one_at_each(self._sites)

    def begin(self) -> None:
        """Have a job at each site, so that all brokers and drivers are up."""
        self._setting.say(f"starting {len(self._sites)} sites")
        began = time.monotonic()
        self._up.apply(document(self._sites, self._base))
        took = time.monotonic() - began
        memory = self._up.memory_mb()
        self._part.notes.append(
            f"{len(self._sites)} sites with a job each up in {took:.0f} s, {memory:,.0f} MB"
        )
        self._setting.say(f"sites up in {took:.0f} s, {memory:,.0f} MB")

    def run(self, number: int) -> None:
        """Deploy and delete a chain of each size; jobs of the longest are modified in between."""
        setting = self._setting
        chance = random.Random(setting.seed * 1000 + number)  # noqa: S311 - places, no secrets
        for size in setting.sizes:
            chain = drawn(f"r{number}n{size}", size, self._sites, chance)
            began = time.monotonic()
            self._timed(number, "deploy", size, [chain])
            through = self._up.through(chain) - began
            self._note(number, "through", size, through)
            if size == max(setting.sizes):
                self._modify(number, chain, chance)
                self._note(number, "memory", size, self._up.memory_mb())
            self._timed(number, "delete", size, [])

    def _modify(self, number: int, chain: Chain, chance: random.Random) -> None:
        """Change the text of some jobs of a chain, then of more.

        A record passes before the next change: queries that were started are still planned then.
        """
        versions = [0] * len(chain.sites)
        for turn, count in enumerate(self._setting.sizes, 1):
            for job in chance.sample(range(len(versions)), count):
                versions[job] += 1
            began = time.monotonic()
            self._timed(number, "modify", count, [chain], {chain.name: list(versions)})
            passed = self._up.through(chain, before=turn) - began
            self._note(number, "modified through", count, passed)

    def _timed(
        self,
        number: int,
        what: str,
        jobs: int,
        chains: list[Chain],
        versions: dict[str, Any] | None = None,
    ) -> None:
        """Apply the base with chains and take note how long that took."""
        wanted = document(self._sites, [*self._base, *chains], versions)
        began = time.monotonic()
        found = self._up.apply(wanted)
        self._note(number, what, jobs, time.monotonic() - began, steps=found["total"])

    def _note(self, number: int, what: str, jobs: int, figure: float, **more: object) -> None:
        run = {"round": number, "what": what, "jobs": jobs, "seconds": figure, **more}
        self._part.runs.append(run)
        unit = "MB" if what == "memory" else "s"
        self._setting.say(f"run {number}: {what} {jobs}: {figure:,.1f} {unit}")


def measure(setting: Setting) -> SitePart:
    """Do all runs on one coordinator."""
    part = SitePart("chains")
    with up() as coordinator:
        campaign = Campaign(coordinator, setting, part)
        campaign.begin()
        for number in range(setting.runs):
            campaign.run(number)
    judge(part, setting)
    return part


def judge(part: SitePart, setting: Setting) -> None:
    """Make the table, the straight lines and the bars of the runs."""
    most = max(setting.sizes)
    spreads = {what: by_size(part.runs, what) for what in WHATS}
    for what, found in spreads.items():
        for jobs, spread in found.items():
            part.rows[f"{what} {jobs}, s"] = {
                "min": spread.least, "mean": spread.mean, "max": spread.most,
            }  # fmt: skip
    for what in ("deploy", "modify", "delete"):
        fit = fit_of_means(spreads[what])
        points = [run for run in part.runs if run["what"] == what]
        every = fitted([run["jobs"] for run in points], [run["seconds"] for run in points])
        part.rows[f"{what}, straight line"] = _line(fit, every)
        value = fit.r2 if fit is not None else None
        part.bars.append(Bar(f"{what} over jobs, R2 of a straight line", value, LINEAR, False))  # noqa: FBT003
    deploy, modify = spreads["deploy"][most].mean, spreads["modify"][most].mean
    part.bars += [
        Bar(f"modify {most} against deploy {most}", modify / deploy, 1.0),
        Bar(
            f"{most} jobs: apply to first record head to tail, most, s",
            spreads["through"][most].most,
            THROUGH_SECONDS,
        ),
    ]
    anew = modify / (deploy + spreads["delete"][most].mean)
    passed = spreads["modified through"][most].mean / spreads["through"][most].mean
    part.notes += [
        "delete k removes a whole chain of k jobs with its streams",
        f"modify {most} takes {anew:.2f} of the time to delete and to deploy {most} anew",
        f"until a record has passed all {most}, modify takes {passed:.2f} of the time of deploy",
    ]


def _line(fit: Fit | None, every: Fit | None) -> dict[str, float | None]:
    if fit is None or every is None:
        return {}
    return {"s for each job": fit.slope, "s before": fit.base, "R2": fit.r2,
            "R2 of all runs": every.r2}  # fmt: skip
