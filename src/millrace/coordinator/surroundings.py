"""What a site must know of other sites: where their brokers are, and what they hand over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from millrace.coordinator.deployment import Deployment, Placed
from millrace.coordinator.phases import Reports
from millrace.ports import JobState
from millrace.ports.link import Folder, PipelineGoal


def with_surroundings(
    goals: Mapping[str, PipelineGoal], deployment: Deployment, reports: Reports
) -> dict[str, PipelineGoal]:
    """Return goals with what sites are told of each other, by what each reports.

    A query that takes along what it keeps waits at its new site until the old one has handed over
    a parcel; nobody asks for one that has begun.
    """
    addresses = {site: told.broker for site, told in reports.items() if told.broker is not None}
    found = dict(goals)
    for site, goal in goals.items():
        others = {name: where for name, where in addresses.items() if name != site}
        found[site] = replace(goal, brokers=others if goal.jobs else {})
    for query, placed in deployment.jobs.items():
        if (wanted := _awaited(query, placed, reports)) is None:
            continue
        source, folder = wanted
        giver = found.get(source, PipelineGoal())
        found[source] = replace(giver, offers=giver.offers | {folder})
        digest = reports[source].offered.get(folder) if source in reports else None
        if digest is not None:
            taker = found[placed.site]
            found[placed.site] = replace(taker, parcels={**taker.parcels, query: digest})
    return found


def _awaited(query: str, placed: Placed, reports: Reports) -> tuple[str, Folder] | None:
    """The site and folder of which a query waits for a parcel, if it does."""
    if placed.goal.brought is None or not placed.goal.running:
        return None
    told = reports[placed.site].jobs.get(query) if placed.site in reports else None
    begun = told is not None and told.generation == placed.goal.generation
    if begun and told is not None and told.state not in (JobState.STARTING, JobState.FAILED):
        return None
    site, number = placed.goal.brought
    return site, (query, number)
