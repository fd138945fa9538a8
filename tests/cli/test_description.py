"""One thing told in full."""

from __future__ import annotations

from dataclasses import asdict, replace

from millrace.cli.views.description import described
from millrace.coordinator.views import FatesView, JobView

FATES = FatesView(3, 3, 0, 0, 0, 0, 0, {"out": 3})
JOB = JobView(
    pipeline="p",
    name="clean",
    site="edge",
    state="running",
    kind="sql",
    reads=("raw",),
    writes=("out",),
    revision=1,
    generation=1,
    run="run-1",
    mode="micro-batch",
    batch=4,
    rows_per_second=2.0,
    at=90.0,
    lag={"raw": 5},
    fates=FATES,
)


def told(job: JobView) -> str:
    return described("job", asdict(job), 100.0).plain


def test_what_a_receiver_counted_is_told_where_it_counted_something() -> None:
    assert "received of" not in told(JOB)
    counts = {"received": 1234, "redelivered": 2, "sessions_lost": 1, "dropped": 0}
    some = told(replace(JOB, received={"raw": counts}))
    assert "received of raw" in some
    assert "1,234 received, 2 redelivered, 1 sessions lost\n" in some
    assert "nothing yet" in told(replace(JOB, received={"raw": {"received": 0}}))
