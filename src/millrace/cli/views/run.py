"""A running pipeline as a table, and as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from millrace.agent.watch import JobView
from millrace.ports import Fates, JobState

_COLOURS = {
    JobState.RUNNING: "green",
    JobState.STARTING: "yellow",
    JobState.FAILED: "red",
    JobState.STOPPED: "dim",
    JobState.ENDED: "dim",
}


def jobs_table(pipeline: str, views: Sequence[JobView], note: str = "") -> Table:
    """Return the live table: a row for each job."""
    table = Table(title=pipeline, caption=note or None, title_justify="left", pad_edge=False)
    table.add_column("job", overflow="fold")
    table.add_column("state")
    table.add_column("mode")
    for name in ("rec/s", "lag", "lag s", "p50 ms", "p99 ms"):
        table.add_column(name, justify="right")
    table.add_column("ledger: read = used + filtered + malformed + ...", overflow="fold")
    table.add_column("age s", justify="right")
    for view in views:
        table.add_row(*_row(view))
    return table


def _row(view: JobView) -> list[Text | str]:
    status = view.status
    lag = sum(view.lag_records.values()) if view.lag_records else None
    seconds = max(view.lag_seconds.values()) if view.lag_seconds else None
    return [
        view.job,
        Text(status.state, style=_COLOURS[status.state]),
        status.mode or "?",
        _number(status.progress.rows_per_second if status.progress.batch >= 0 else None),
        _number(lag),
        _number(seconds),
        _number(None if view.p50 is None else view.p50 * 1000),
        _number(None if view.p99 is None else view.p99 * 1000),
        Text(status.error, style="red") if status.error else ledger_text(status.progress.fates),
        _number(view.age),
    ]


def ledger_text(fates: Fates) -> str:
    """Return the ledger in one line; what is zero is left out, what is unknown is said."""
    parts = [f"{fates.used} used"]
    if fates.filtered:
        parts.append(f"{fates.filtered} filtered")
    rest = {"malformed": fates.malformed, "dropped": fates.dropped}
    parts += [f"{count} {name}" for name, count in rest.items() if count]
    if fates.lost_sight:
        parts.append(f"{fates.lost_sight} of unknown fate")
    if fates.late:
        known = fates.filtered is not None
        parts.append(f"{fates.late} late" if known else f"(of these at least {fates.late} late)")
    written = ", ".join(f"{count} to {name}" for name, count in fates.written.items())
    return f"{fates.read} = {' + '.join(parts)}" + (f"; {written}" if written else "")


def _number(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def views_document(
    pipeline: str,
    views: Sequence[JobView],
    peaks: Mapping[str, int],
    promised: Mapping[str, int],
) -> dict[str, Any]:
    """Return a running pipeline for programs; what is unknown is null."""
    return {
        "pipeline": pipeline,
        "jobs": {view.job: _document(view) for view in views},
        "streams": {
            name: {"peak_records": peak, "promised_records": promised.get(name)}
            for name, peak in peaks.items()
        },
    }


def _document(view: JobView) -> dict[str, Any]:
    status = view.status
    document: dict[str, Any] = {
        "site": view.site,
        "state": status.state.value,
        "mode": status.mode.value if status.mode is not None else None,
        "reasons": list(status.reasons),
        "records_per_second": status.progress.rows_per_second
        if status.progress.batch >= 0
        else None,
        "batch": status.progress.batch,
        "lag_records": dict(view.lag_records),
        "lag_seconds": dict(view.lag_seconds),
        "latency_seconds": {"p50": view.p50, "p99": view.p99},
        "skew_seconds": status.progress.skew_seconds,
        "ledger": asdict(status.progress.fates),
        "ledger_age_seconds": view.age,
    }
    if status.error:
        document |= {"error": status.error, "hint": status.hint}
    return document
