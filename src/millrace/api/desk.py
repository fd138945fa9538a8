"""What every route works with: the station, the limits, and who waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from millrace.api.goals import Goals
from millrace.api.lanes import Lanes
from millrace.api.limits import Limits, Refusals, Waits
from millrace.api.metrics import Metrics
from millrace.api.news import News
from millrace.coordinator.station import Station


@dataclass(frozen=True, slots=True)
class Desk:
    """The parts, made once for an application."""

    station: Station
    limits: Limits
    lanes: Lanes
    news: News
    waits: Waits
    refusals: Refusals
    goals: Goals
    metrics: Metrics

    @classmethod
    def of(cls, station: Station, limits: Limits) -> Desk:
        """Return the desk of a station."""
        lanes, news = Lanes.of(limits), News(station.bell)
        goals, metrics = Goals(station, news, lanes), Metrics(station, lanes)
        waits, refusals = Waits(limits.waits), Refusals(limits.refusals)
        return cls(station, limits, lanes, news, waits, refusals, goals, metrics)


async def _desk(request: Request) -> Desk:
    return cast("Desk", request.app.state.desk)


#: The desk, for routes.
AtDesk = Annotated[Desk, Depends(_desk)]
