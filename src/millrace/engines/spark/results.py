"""What a job's code makes of its inputs: a frame for each output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.code import load_code
from millrace.engines.spark.formats import quoted
from millrace.engines.spark.plans import analyzed, frame_of_sql, set_view
from millrace.engines.spark.source import Source
from millrace.errors import OperationFailed
from millrace.model.job import Job
from millrace.model.quantity import Duration
from millrace.model.window import Window
from millrace.ports import JobOrder

#: The column that a window adds: a struct of start and end.
WINDOW = "window"


def results(
    session: SparkSession, order: JobOrder, sources: Sequence[Source], *, counts: bool = True
) -> dict[str, DataFrame]:
    """Return the frame for each output; the only result of a job goes to all of them.

    Without `counts` the records of inputs are not counted where that can be done later.
    """
    job = order.job
    if job.sql is not None:
        for source in sources:
            bare = _plain(source, job) and (source.counted or not counts)
            plan = source.uncounted() if bare else analyzed(_windowed(source, job))
            set_view(session, source.input.alias or source.input.stream, plan)
        made: Any = frame_of_sql(session, job.sql)
    elif job.python is not None:
        views = [_windowed(source, job) for source in sources]
        made = load_code(job.python, order.code, job.name).function(*views)
    elif job.aggregate is not None:
        made = _aggregated(job, [_windowed(source, job) for source in sources])
    else:
        raise OperationFailed("not-yet", f"job {job.name}: {job.kind} jobs can't be run yet",
                              "use sql, python, map or aggregate")  # fmt: skip
    return _by_output(job, made)


def _by_output(job: Job, made: Any) -> dict[str, DataFrame]:
    names = {(port.alias or port.stream): port.stream for port in job.outputs}
    if isinstance(made, DataFrame):
        return dict.fromkeys(names.values(), made)
    if isinstance(made, tuple) and len(made) == len(names):
        made = dict(zip(names, made, strict=True))
    if not isinstance(made, Mapping) or not all(isinstance(f, DataFrame) for f in made.values()):
        raise OperationFailed(
            "no-frame",
            f"job {job.name}: its function returned {type(made).__name__}, no DataFrame",
            "return a DataFrame, or a dict of one for each output",
        )
    if set(made) != set(names):
        raise OperationFailed(
            "other-outputs",
            f"job {job.name}: its function returned {', '.join(sorted(made))} "
            f"and its outputs are {', '.join(sorted(names))}",
            "return a frame for each output, under its name",
        )
    return {names[name]: made[name] for name in names}


def incomplete(job: Job, plans: Mapping[str, Any], sources: Sequence[Source]) -> bool:
    """Whether results lose their origins, and were made without the counts that take their place.

    By output, `plans` are those with origins, where these are known.
    """
    lost = None in plans.values() or (len(plans) > 1 and len(sources) > 1)
    return lost and any(
        source.passing or (_plain(source, job) and not source.counted) for source in sources
    )


def _plain(source: Source, job: Job) -> bool:
    """Whether a job's SQL needs no more of an input than its columns."""
    return job.sql is not None and job.window is None and source.input.by is None


def _windowed(source: Source, job: Job) -> DataFrame:
    """The input with its watermark, and the window that each record is in, as a column."""
    view, window = _timed(source, job), job.window
    if window is None:
        return view
    if window.kind != "timestamp":
        raise OperationFailed(
            "no-such-window",
            f"job {job.name}: SQL and DataFrames have no windows by count or by the wall clock",
            "say what you want with `aggregate`, or give the window a column of time (by: at)",
        )
    if window.late is not None:
        raise OperationFailed(
            "late-unknown",
            f"job {job.name}: in SQL and DataFrames it is not known exactly which records are late",
            "leave out `late`, or say what you want with `aggregate`",
        )
    _check_columns(source, job, (str(window.by),))
    late = _interval(window.lateness) if window.lateness is not None else "0 seconds"
    marked = view.withWatermark(str(window.by), late)
    return marked.withColumn(WINDOW, _window(window))


def _timed(source: Source, job: Job) -> DataFrame:
    """The input as its entry in the file says: with its time, without what repeats."""
    view, port = source.view(), source.input
    if port.by is None:
        return view
    _check_columns(source, job, (port.by, *port.unique))
    wait = port.within or port.lateness
    marked = view.withWatermark(port.by, "0 seconds" if wait is None else _interval(wait))
    return marked.dropDuplicatesWithinWatermark(list(port.unique)) if port.unique else marked


def _check_columns(source: Source, job: Job, names: Sequence[str]) -> None:
    for name in names:
        if name not in source.schema:
            raise OperationFailed(
                "no-column",
                f"job {job.name}: its input {source.stream.name} has no column {name!r}: it has "
                f"{', '.join(source.schema)}",
                "name a column of the stream's schema",
            )


def _aggregated(job: Job, views: Sequence[DataFrame]) -> DataFrame:
    """The results of Spark's own windows."""
    first, *rest = views
    for view in rest:
        first = first.unionByName(view)
    per = job.window.per if job.window is not None else ()
    columns = [F.expr(said).alias(name) for name, said in (job.aggregate or {}).items()]
    grouped = first.groupBy(WINDOW, *map(quoted, per)).agg(*columns)
    spans = [F.col(f"{WINDOW}.start").alias("start"), F.col(f"{WINDOW}.end").alias("end")]
    return grouped.select(*spans, *map(quoted, per), *map(quoted, job.aggregate or {}))


def _window(window: Window) -> Any:
    if window.gap is not None:
        return F.session_window(str(window.by), _interval(window.gap))
    slide = _interval(window.every) if isinstance(window.every, Duration) else None
    return F.window(str(window.by), _interval(window.of), slide)


def _interval(length: Any) -> str:
    return f"{length.nanoseconds // 1000} microseconds"
