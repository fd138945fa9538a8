"""A job with state per key as a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from millrace.engines.spark.code import load_code
from millrace.engines.spark.formats import ddl, key_text, quoted
from millrace.engines.spark.kept_fields import fields_before, refuse
from millrace.engines.spark.keyed.bucket import Program
from millrace.engines.spark.keyed.kept import CODE, TIMERS, Fields, fields_of, misfits
from millrace.engines.spark.keyed.operators import Keeping, Timing
from millrace.engines.spark.keyed.pages import BUCKETS
from millrace.engines.spark.keyed.turns import RECORD, TURN
from millrace.engines.spark.keyed.work import COLUMNS, KeyedTask
from millrace.engines.spark.map_job import map_task, origins
from millrace.engines.spark.plans import Sketch
from millrace.engines.spark.seats import PARTITIONS, SEAT, bucket_seat, source_seat
from millrace.engines.spark.sink import Target, addressed
from millrace.engines.spark.source import BAD, ORIGIN, Source
from millrace.model.work import KeyedState
from millrace.ports import JobOrder


def keyed_rows(
    order: JobOrder, sources: Sequence[Source], target: Target
) -> tuple[DataFrame, Mapping[str, str]]:
    """Return the rows of a job with state, each with its origin, and the fields of the state."""
    job = order.job
    state = job.state or KeyedState("")
    code = load_code(state.code, order.code, job.name)
    fields = fields_of(code.function)
    expires = None if state.expires is None else state.expires.nanoseconds // 1000
    program = Program(code.function, fields, expires)
    timed = program.timed or expires is not None
    check_fits(order, fields, timed=timed)
    task = KeyedTask(map_task(order, sources, target, code), program)
    turns = _turns(sources, state)
    if timed:
        turns = turns.groupBy(SEAT).transformWithStateInPandas(
            Timing(BUCKETS), ddl(TURN), "Append", "None"
        )
    dealt = turns.selectExpr(*TURN, bucket_seat(BUCKETS))
    kept = dealt.groupBy(SEAT).transformWithStateInPandas(
        Keeping(task), ddl(COLUMNS), "Append", "None"
    )
    keyed = [place for place, _, _, key, _ in task.map.outputs.values() if key]
    rows = addressed(Sketch.on(origins(kept, sources, keyed)), target, caused=True).frame()
    return rows, _noted(fields, timed=timed)


def _noted(fields: Fields | None, *, timed: bool) -> dict[str, str]:
    """What is written down of the state, to be held against later versions of the code."""
    about = {CODE: "function" if fields is None else "class", TIMERS: "yes" if timed else "no"}
    return {**about, **({} if fields is None else fields.types)}


def _turns(sources: Sequence[Source], state: KeyedState) -> DataFrame:
    """The records of all inputs, each with the key of its state and the bucket of that."""
    key = key_text(state.key)
    frames = []
    counts = [source.stream.partitions for source in sources]
    for place, source in enumerate(sources):
        time = (
            f"unix_micros(CAST({quoted(state.by)} AS TIMESTAMP))"
            if state.by
            else (f"unix_micros({ORIGIN}.appended)")
        )
        missing = f"({time}) IS NULL" if state.by else "false"
        columns = {
            SEAT: source_seat(place, f"{ORIGIN}.partition", counts),
            "kind": f"{RECORD}",
            "bucket": f"CAST(if({BAD}, 0, pmod(crc32(CAST({key} AS BINARY)), {BUCKETS})) AS INT)",
            "source": f"CAST({place * PARTITIONS} + {ORIGIN}.partition AS INT)",
            "position": f"{ORIGIN}.position",
            "state_key": f"if({BAD}, NULL, {key})",
            "time": f"coalesce({time}, 0L)",
            "before": f"coalesce({time}, 0L)",
            "bad": f"{BAD} OR {missing}",
            "input": f"{place}",
            "partition": f"{ORIGIN}.partition",
            "key": f"{ORIGIN}.key",
            "value": f"{ORIGIN}.payload",
            "times": f"{ORIGIN}.times",
        }
        frames.append(source.base.selectExpr(*(f"{said} AS {n}" for n, said in columns.items())))
    first, *rest = frames
    for frame in rest:
        first = first.union(frame)
    return first


def check_fits(order: JobOrder, fields: Fields | None, *, timed: bool) -> None:
    """Refuse code that can't go on with the state that is there."""
    before = fields_before(order.place)
    if before is None:
        return
    found = [] if fields is None else misfits(before, fields)
    now = _noted(fields, timed=timed)
    if before.get(CODE) != now[CODE]:
        found = [f"a {before.get(CODE)} kept it, and the code is a {now[CODE]} now"]
    if before.get(TIMERS) != now[TIMERS]:
        was = "no timers" if timed else "timers (on_timer or expires)"
        found.append(f"it was kept with {was}, and that has changed")
    refuse(order, found, "give new fields a default and keep the types of others")
