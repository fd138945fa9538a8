"""How fast jobs go, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table

from millrace.cli.views.ages import age, number, plain
from millrace.cli.views.listing import table_of

_HEADERS = ("job", "state", "rec/s", "lag", "batch", "batch age", "site")


def rates_table(jobs: Iterable[Mapping[str, Any]], now: float, note: str = "") -> Table:
    """Return a row for each job; `lag` is the sum over its streams."""
    made = table_of(_HEADERS, [_row(job, now) for job in jobs])
    made.caption = note or None
    return made


def _row(job: Mapping[str, Any], now: float) -> list[str]:
    return [
        plain(f"{job['pipeline']}/{job['name']}"),
        job["state"],
        number(job["rows_per_second"]),
        _lag(job["lag"]),
        str(job["batch"]) if job["batch"] >= 0 else "-",
        age(job["at"], now),
        plain(job["site"]),
    ]


def _lag(lag: Mapping[str, int] | float | None) -> str:
    """Streams with their lags, or their sum."""
    if isinstance(lag, Mapping):
        return number(sum(lag.values())) if lag else "-"
    return number(lag)
