"""What an input of a job may say of time, repetition and tables."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.errors import Problems
from millrace.model.job import Input, Job
from millrace.spec.expand import Item


def check_inputs(job: Job, item: Item, problems: Problems) -> None:
    """Tell what is wrong with the inputs of a job, each by itself and all together."""
    for port in job.inputs:
        for wrong, hint in (*_time(port, job), *_kind(port, job)):
            problems.error(
                "input",
                f"the input {port.stream!r} of job {job.name!r} {wrong}",
                item.locate("from"),
                hint=hint,
            )
    if job.inputs and all(port.table for port in job.inputs):
        problems.error(
            "only-tables",
            f"job {job.name!r} reads only tables: nothing would make it fire",
            item.locate("from"),
            hint="read one of them as a stream: leave out `table`",
        )


def _time(port: Input, job: Job) -> Iterator[tuple[str, str]]:
    timed = port.lateness is not None or bool(port.unique)
    if timed and port.by is None:
        yield "has `lateness` or `unique`, but no column of time", "add `by: COLUMN`"
    if port.by is not None and job.window is not None:
        yield "has its time by the job's window already", "leave out its `by`"
    if port.unique and port.within is None:
        yield "is `unique`, but for how long?", "add `within: 10 min`"
    if port.within is not None and not port.unique:
        yield "says `within`, but not which columns are unique", "add `unique: COLUMN`"
    if port.within is not None and port.lateness is not None:
        yield "has `lateness` beside `within`", "`within` also says how late a record may be"


def _kind(port: Input, job: Job) -> Iterator[tuple[str, str]]:
    timed = port.by is not None or bool(port.unique)
    if port.table and timed:
        yield "is a table, which has no times", "leave out `by` and `unique`"
    if (port.table or timed) and job.kind not in ("sql", "python"):
        yield f"is read by `{job.kind}` code", "times, `unique` and tables are for sql and python"
