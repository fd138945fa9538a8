"""A job with exact windows as a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from millrace.engines.spark.code import load_code
from millrace.engines.spark.exact.aggregates import kinds, parsed
from millrace.engines.spark.exact.closing import after
from millrace.engines.spark.exact.function import FunctionTask
from millrace.engines.spark.exact.marking import ABOUT, MARK, RESULT, Shape
from millrace.engines.spark.exact.operators import Closing, Counting, Marking
from millrace.engines.spark.exact.partials import Layout
from millrace.engines.spark.fate import DROPPED, LATE, USED
from millrace.engines.spark.fit import check_fit
from millrace.engines.spark.formats import Schema, ddl, encoded, key_text, quoted, text
from millrace.engines.spark.kept_fields import check_same
from millrace.engines.spark.map_job import map_task
from millrace.engines.spark.plans import Sketch
from millrace.engines.spark.seats import PARTITIONS, SEAT, bucket_seat, source_seat
from millrace.engines.spark.sink import (
    CAUSE,
    FATE,
    FIRST,
    INDEX,
    KEY,
    OUT,
    VALUE,
    Target,
    addressed,
    declared_key,
)
from millrace.engines.spark.source import BAD, ORIGIN, Source, counted
from millrace.model.job import Emit
from millrace.model.quantity import Records
from millrace.model.stream import Stream
from millrace.model.window import Late, Window
from millrace.ports import JobOrder

#: Each is one call for a batch; more share the work among more tasks, and cost more calls.
_BUCKETS = 8
BEGIN, END = "start", "end"


def window_rows(
    order: JobOrder, sources: Sequence[Source], target: Target
) -> tuple[DataFrame, Mapping[str, Schema], Mapping[str, str]]:
    """Return the rows of a job with exact windows, the columns of what it writes and its state."""
    job = order.job
    window = job.window or Window()
    aggregates = parsed(job.name, job.aggregate or {})
    found = [kinds(_types(s, aggregates.arguments), job.name, aggregates) for s in sources]
    holds = job.map is not None
    layout = Layout(aggregates, tuple(map(_wider, *found)), holds)
    shape = _shape(window, layout, sources)
    fields = _fields(window, layout)
    check_same(order, fields, "keep the window and what is worked out of it")
    task = _function(order, sources, target, shape) if holds else None
    records = _records(sources, window, shape)
    if window.kind == "capacity":
        closed = records.groupBy(SEAT).transformWithStateInPandas(
            Counting(shape, task), ddl(after(shape)), "Append", "None"
        )
    else:
        closed = _in_time(records, shape, task, updates=job.emit is Emit.UPDATES)
    results = _results(closed.where(f"kind != {MARK}"), sources[0], window, layout)
    if task is not None:
        keyed = [place for place, _, _, key, _ in task.map.outputs.values() if key]
        rows = _rows(results, _made_by_function(keyed), sources, target, window)
        schemas = {name: stream.schema or {} for name, stream in target.outputs.items()}
    else:
        output = next(iter(target.outputs.values()))
        made = check_fit(results.select(*_names(window, layout)), output)
        rows = _rows(results, _made_by_aggregates(output, list(made)), sources, target, window)
        schemas = {output.name: made}
    return rows.where("topic IS NOT NULL"), schemas, fields


def _fields(window: Window, layout: Layout) -> dict[str, str]:
    """What the state of windows is made of, in words."""
    spans = {"of": window.of, "every": window.every, "gap": window.gap, "by": window.by}
    said = {name: str(value) for name, value in spans.items() if value is not None}
    said["per"] = ", ".join(window.per)
    arguments = enumerate(layout.aggregates.arguments)
    return {**said, **{f"argument {at}": text for at, text in arguments}, **layout.columns()}


def _function(
    order: JobOrder, sources: Sequence[Source], target: Target, shape: Shape
) -> FunctionTask:
    job, window = order.job, order.job.window or Window()
    adds = load_code(str(job.map), order.code, job.name)
    task = map_task(order, sources, target, adds)
    timed = window.kind != "capacity"
    made = FunctionTask(task, None, shape.slide, shape.length, timed)
    if window.inverse is None:
        return made
    code = load_code(window.inverse, order.code, job.name)
    task = replace(task, modules={**task.modules, **code.lazy})
    return replace(made, map=task, inverse=code.function, version=f"{adds.version} {code.version}")


def _in_time(
    records: DataFrame, shape: Shape, task: FunctionTask | None, *, updates: bool
) -> DataFrame:
    """The windows of records by their time, and those by the clock."""
    marked = records.groupBy(SEAT).transformWithStateInPandas(
        Marking(shape), ddl(shape.between()), "Append", "None"
    )
    clock = "ProcessingTime" if shape.ticks else "None"
    dealt = marked.selectExpr("*", bucket_seat(shape.buckets))
    closed = dealt.groupBy(SEAT).transformWithStateInPandas(
        Closing(shape, updates=updates, function=task), ddl(after(shape)), "Append", clock
    )
    return closed.observe("late", F.expr("sum(late) AS late"))


def _shape(window: Window, layout: Layout, sources: Sequence[Source]) -> Shape:
    length, slide = (
        length.count if isinstance(length, Records) else _micros(length)
        for length in (window.of, window.every)
    )
    return Shape(
        layout,
        length,
        slide or length,
        _micros(window.gap) if window.gap is not None else None,
        _micros(window.lateness),
        window.late is Late.KEEP,
        tuple(
            place * PARTITIONS + part
            for place, source in enumerate(sources)
            for part in range(source.stream.partitions)
        ),
        _BUCKETS,
        window.kind == "wallclock",
        _micros(window.idle) if window.idle is not None else None,
    )


def _micros(length: object) -> int:
    return int(getattr(length, "nanoseconds", 0)) // 1000


def _wider(*found: str) -> str:
    """The type of an argument that several inputs have."""
    return "double" if "double" in found else "long"


def _types(source: Source, arguments: Sequence[str]) -> list[str]:
    typed = source.view().selectExpr(*(f"{said} AS a{at}" for at, said in enumerate(arguments)))
    return [kind for _, kind in typed.dtypes]


def _records(sources: Sequence[Source], window: Window, shape: Shape) -> DataFrame:
    """What the first operator sees of the records of all inputs."""
    time = {"capacity": f"{ORIGIN}.position", "wallclock": f"{ORIGIN}.appended"}.get(
        window.kind, quoted(str(window.by))
    )
    micros = "0L" if window.kind == "capacity" else f"unix_micros(CAST({time} AS TIMESTAMP))"
    key = key_text(window.per) if window.per else "''"
    frames = []
    counts = [source.stream.partitions for source in sources]
    for place, source in enumerate(sources):
        cause = text(f"{window.by} is empty, or no time")
        empty = f"CASE WHEN NOT {BAD} AND {micros} IS NULL THEN {cause} END"
        timed = source.base.selectExpr(
            *map(quoted, source.schema), ORIGIN, f"{BAD} OR {micros} IS NULL AS {BAD}",
            f"{empty} AS cause",
        )  # fmt: skip
        chosen = {
            SEAT: source_seat(place, f"{ORIGIN}.partition", counts),
            "source": f"CAST({place * PARTITIONS} + {ORIGIN}.partition AS INT)",
            "bad": BAD,
            "time": f"coalesce({micros}, 0L)",
            "key": key,
            **_arguments(shape.layout),
            **_about(place, shape),
        }
        frames.append(
            counted(timed, source.input, source.by).selectExpr(
                *(f"{said} AS {name}" for name, said in chosen.items())
            )
        )
    first, *rest = frames
    for frame in rest:
        first = first.union(frame)
    return first


def _arguments(layout: Layout) -> dict[str, str]:
    """The columns of what is summed up, and whether it is there."""
    found = {}
    for at, (said, kind) in enumerate(zip(layout.aggregates.arguments, layout.kinds, strict=True)):
        found[f"a{at}"] = f"coalesce(CAST({said} AS {kind}), CAST(0 AS {kind}))"
        found[f"v{at}"] = f"CAST({said} AS {kind}) IS NOT NULL"
    return found


def _about(place: int, shape: Shape) -> dict[str, str]:
    """The columns of where a record comes from; all of it, where it may have to be kept."""
    keep = "true" if shape.keep or shape.layout.holds else BAD
    return {
        "reader": str(place),
        "partition": f"{ORIGIN}.partition",
        "position": f"{ORIGIN}.position",
        "record_key": f"if({keep}, {ORIGIN}.key, NULL)",
        "payload": f"if({keep}, {ORIGIN}.payload, NULL)",
        "times": f"if({keep}, {ORIGIN}.times, NULL)",
        "cause": "cause",
    }


def _names(window: Window, layout: Layout) -> list[str]:
    return [quoted(n) for n in (BEGIN, END, *window.per, *layout.names().values())]


def _results(closed: DataFrame, source: Source, window: Window, layout: Layout) -> DataFrame:
    """The columns as the job's readers see them, beside those of letters."""
    kept = ["kind", "fate", *ABOUT]
    said = "{}" if window.kind == "capacity" else "timestamp_micros({})"
    columns = [f"{said.format(name)} AS {as_}" for name, as_ in (("begin", BEGIN), ("end", END))]
    if window.per:
        per = ddl({name: source.schema[name] for name in window.per})
        closed = closed.selectExpr("*", f"from_json(key, {text(per)}) AS per")
        columns += [f"per.{quoted(name)} AS {quoted(name)}" for name in window.per]
    renamed = [f"{name} AS `__{name}`" for name in kept]
    names = layout.names()
    results = [f"{name} AS {quoted(names.get(name, name))}" for name in layout.results()]
    return closed.selectExpr(*renamed, *columns, *results)


@dataclass(frozen=True, slots=True)
class _Made:
    """How a result is written, in SQL."""

    key: str
    value: str
    out: str = "0"


def _made_by_aggregates(output: Stream, columns: Sequence[str]) -> _Made:
    return _Made(declared_key(output, columns), encoded(output, columns))


def _made_by_function(keyed: Sequence[int]) -> _Made:
    declared = " OR ".join(f"out = {place}" for place in keyed) or "false"
    return _Made(f"if({declared}, CAST(result_key AS BINARY), NULL)", "value", "out")


def _rows(
    results: DataFrame,
    made: _Made,
    sources: Sequence[Source],
    target: Target,
    window: Window,
) -> DataFrame:
    names = ", ".join(text(source.stream.name) for source in sources)
    result = f"__kind = {RESULT}"
    origin = {
        "stream": f"get(array({names}), __reader)",
        "partition": "__partition",
        "position": "__position",
        "key": "__record_key",
        "payload": "__payload",
        "times": "__times",
    }
    fields = ", ".join(f"'{name}', if({result}, NULL, {said})" for name, said in origin.items())
    late = text(f"late: more than {window.lateness or '0 s'} before the latest of its partition")
    rows = results.selectExpr(
        f"if({result}, {made.key}, NULL) AS {KEY}",
        f"if({result}, {made.value}, NULL) AS {VALUE}",
        f"named_struct({fields}) AS {ORIGIN}",
        f"if({result}, {USED}, __fate) AS {FATE}",
        f"if(__fate = {LATE} AND NOT {result}, {late}, __cause) AS {CAUSE}",
        f"{made.out} AS {OUT}",
        f"if({result}, NULL, 0) AS {INDEX}",
        f"true AS {FIRST}",
    )
    largest = max(target.largest(output) for output in target.outputs.values())
    large = f"{FATE} = {USED} AND length({VALUE}) > {largest}"
    fated = rows.withColumn(FATE, F.expr(f"if({large}, {DROPPED}, {FATE})"))
    return addressed(Sketch.on(fated), target, caused=True).frame()
