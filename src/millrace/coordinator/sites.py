"""Makes views of sites: who serves each, whether it was heard of, and what is wrong there."""

from __future__ import annotations

from millrace.coordinator.roster import AWAY_SECONDS, Served
from millrace.coordinator.service import Coordinator
from millrace.coordinator.views import SiteView
from millrace.model.site import Site
from millrace.ports.link import PipelineGoal

_LOCAL = (None, "localhost", "127.0.0.1", "::1")


def is_local(site: Site) -> bool:
    """Whether a site is on the coordinator's own machine, or attached: no agent must join."""
    there = all(engine.address or engine.master for engine in site.engines)
    attached = there and (site.broker is None or not site.broker.managed)
    return site.pilot is None and (attached or site.host in _LOCAL)


def is_here(site: str, goal: PipelineGoal, joined: frozenset[str]) -> bool:
    """Whether the coordinator serves a pipeline's site itself, by the files in use there."""
    files = goal.revisions.values()
    return site not in joined and all(
        is_local(file.sites[site]) for file in files if site in file.sites
    )


def site_views(coordinator: Coordinator, joined: frozenset[str]) -> list[SiteView]:
    """Return all sites that pipelines have something at, or for which an agent has a token."""
    goals, files = coordinator.goals(), [board.file for board in coordinator.boards.values()]
    declared = {site.name: site for file in files for site in file.sites.values()}
    found = []
    for name in sorted({*goals, *joined, *declared}):
        pipelines = tuple(sorted(goals[name].pipelines)) if name in goals else ()
        served = Served.JOINED.value if name in joined else Served.HERE.value
        if name not in joined and name in declared and not is_local(declared[name]):
            served = "nobody"
        found.append(_site(coordinator, name, served, pipelines))
    return found


def _site(coordinator: Coordinator, name: str, served: str, pipelines: tuple[str, ...]) -> SiteView:
    now = coordinator.clocks.steady()
    silent, heard = coordinator.roster.silence(name, now), coordinator.roster.last(name)
    state = "unknown"
    if silent is not None:
        state = "up" if silent < AWAY_SECONDS else "away"
    elif served == Served.HERE:
        state = "up"  # nothing is there yet, and it is this machine
    reports = heard.report.pipelines if heard is not None else {}
    errors = [
        f"{pipeline}: {what} {error}".replace("  ", " ")
        for pipeline, report in reports.items()
        for what, error in report.errors.items()
    ]
    brokers = {of: report.broker for of, report in reports.items() if report.broker is not None}
    return SiteView(
        name,
        served,
        state,
        None if silent is None else round(silent, 1),
        pipelines,
        brokers,
        tuple(errors),
    )
