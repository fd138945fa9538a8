"""A query's order as a query: its inputs as frames, its jobs' code over them, results as rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from millrace.engines.spark.arrow import register_writer
from millrace.engines.spark.carry import Operators, carried, operators
from millrace.engines.spark.checkpoint import read_start
from millrace.engines.spark.errors import analysis_failure
from millrace.engines.spark.fan import fanned
from millrace.engines.spark.fit import check_fit
from millrace.engines.spark.formats import Schema, schema_of
from millrace.engines.spark.kept_fields import check_same, fields_before
from millrace.engines.spark.ledger import Share
from millrace.engines.spark.map_job import inside_rows, map_rows
from millrace.engines.spark.member import Alone, Member
from millrace.engines.spark.outside.bridge import outside
from millrace.engines.spark.outside.carried import by_spark
from millrace.engines.spark.plans import Sketch, set_active
from millrace.engines.spark.prepared import Compiled
from millrace.engines.spark.results import incomplete, results
from millrace.engines.spark.seam import Seam, mapped_seam, passed, seam
from millrace.engines.spark.sink import (
    Target,
    addressed,
    job_name,
    letter_rows,
    plain_rows,
    routed,
    staged,
)
from millrace.engines.spark.source import Source, fresh, kafka_reader, source_of, table_of
from millrace.engines.spark.templates import frame_by_template
from millrace.errors import OperationFailed
from millrace.model.job import Input, Job
from millrace.model.stream import Format, Stream
from millrace.ports import JobOrder

#: What no record can fail to be.
_BYTES = (Format.RAW, Format.TEXT)
#: Gives an input's records, with Kafka's columns; takes what `kafka_reader` takes.
Reader = Callable[..., DataFrame]


def compiled(
    session: SparkSession,
    order: JobOrder,
    known: Mapping[str, Schema],
    *,
    batches: bool = False,
    reader: Reader = kafka_reader,
) -> Compiled:
    """Return the query of an order; `known` are schemas of streams as their writers make them.

    With `batches` it is made for batches, whose size has a limit then. `reader` gives the records
    of each input.

    Raises, with the way out, for code that can't be loaded or that Spark does not understand, and
    for results that don't fit the stream they go to.
    """
    set_active(session)
    made = _Making(session, order, known, reader, batches=batches)
    last = order.job
    try:
        for last in order.jobs:
            made.add(last)
        return made.whole()
    except Exception as error:
        raise analysis_failure(last.name, error) from error


@dataclass(frozen=True, slots=True)
class _Part:
    """What a job gives for one of its streams on a broker."""

    stream: Stream
    columns: Schema
    frame: DataFrame
    #: The plan of the frame with origins, where they are known.
    whole: Any


class _Making:
    """Puts a query together, job by job in the direction of the data."""

    def __init__(
        self,
        session: SparkSession,
        order: JobOrder,
        known: Mapping[str, Schema],
        reader: Reader,
        *,
        batches: bool,
    ) -> None:
        self._session = session
        self._order = order
        self._known = known
        self._reader = reader
        self._batches = batches
        self._sources: list[Source] = []
        self._seams: dict[str, Seam] = {}
        self._parts: list[_Part] = []
        self._frames: list[DataFrame] = []
        self._schemas: dict[str, Schema] = {}
        self._carries: dict[str, bool] = {}
        self._several = len(order.jobs) > 1
        #: Whether what each of its jobs writes is read by one other, and nothing else.
        read = [port.stream for job in order.jobs for port in job.inputs]
        single = len(read) == len(set(read)) == len(order.jobs)
        self._chain = self._several and single and all(len(j.outputs) == 1 for j in order.jobs)
        self._lineage = self._several and any(job.map is not None for job in order.jobs)
        #: The rows of a job at the end of the query that are made for the sink by itself.
        self._own: DataFrame | None = None
        self._fields: Mapping[str, str] | None = None
        #: Why a record that is read from a stream inside can be malformed.
        self._causes: dict[str, str] = {}
        if any(stream.format is Format.ARROW for stream in order.pipeline.streams.values()):
            register_writer(session)

    def add(self, job: Job) -> None:
        """Put a job's code over its inputs."""
        if not job.writes:
            raise OperationFailed(
                "no-output",
                f"job {job.name} writes no stream: its results would go nowhere",
                f"add `to: STREAM` to jobs.{job.name}, or leave the job out",
            )
        order = replace(self._order, job=job)
        sources = [self._source(job, place) for place in range(len(job.inputs))]
        if job.exact:
            self._exact(order, sources)
            return
        if job.map is not None:
            self._map(order, sources)
            return
        if job.state is not None:
            self._state(order, sources)
            return
        frames = results(self._session, order, sources, counts=False)
        if self._chain and self._passes(job, frames, sources):
            return
        plans = _plans(frames, sources)
        if incomplete(job, plans, sources):
            sources = [
                self._seams[it.stream.name].source(it.input, loose=False) if it.passing else it
                for it in sources
            ]
            frames = results(self._session, order, sources)
            plans = _plans(frames, sources)
        self._frames += frames.values()
        self._carries[job.name] = None not in plans.values()
        for name, frame in frames.items():
            stream, plan = order.pipeline.streams[name], plans[name]
            made = self._schemas[name] = check_fit(frame, stream)
            if name in order.inside:
                self._seams[name] = seam(stream, made, frame, plan)
                continue
            self._parts.append(_Part(stream, made, frame, plan))

    def _passes(self, job: Job, frames: Mapping[str, DataFrame], sources: Sequence[Source]) -> bool:
        """Put a job on top that only picks and tests columns; whether it is one."""
        ((name, frame),) = frames.items()
        if name not in self._order.inside:
            return False
        stream = self._order.pipeline.streams[name]
        made = self._schemas[name] = check_fit(frame, stream)
        found = passed(stream, made, frame, sources[0])
        if found is None:
            return False
        self._seams[name] = found
        self._carries[job.name] = True
        self._frames.append(frame)
        return True

    def _source(self, job: Job, place: int) -> Source:
        input_ = job.inputs[place]
        if input_.stream in self._seams:
            plain = job.sql is not None and job.window is None and input_.by is None
            return self._seams[input_.stream].source(input_, loose=plain and self._chain)
        order = self._order
        stream = order.pipeline.streams[input_.stream]
        schema = schema_of(stream, self._known.get(stream.name))
        records = self._records(stream, job, input_)
        if input_.table:
            return table_of(input_, stream, schema, records)
        records = fresh(records, input_, job)
        letters = stream.dead_letters is not None or job.map is not None or job.keeps_state
        found = source_of(
            input_,
            stream,
            schema,
            records,
            letters=letters,
            count=self._several and job.map is None,
            lineage=self._lineage,
            appended=job.state is not None or job.exact,
            by=job.time_of(input_),
            alone=not self._several and len(job.inputs) == 1,
        )
        self._sources.append(found)
        return found

    def _records(self, stream: Stream, job: Job, input_: Input) -> DataFrame:
        if outside(stream.name):
            # Few drivers have such a job, and what it needs takes long to load.
            from millrace.engines.spark.outside.reader import outside_reader  # noqa: PLC0415

            return outside_reader(self._session, stream, job, self._order)
        broker = self._order.brokers[stream.site or ""]
        begin = read_start(self._order.place).get(stream.address)
        if self._reader is kafka_reader and not by_spark(self._order, stream):
            from millrace.engines.spark.outside.reader import carried_reader  # noqa: PLC0415

            return carried_reader(self._session, stream, self._order, input_, begin)
        return self._reader(
            self._session, stream, broker, job, input_, batches=self._batches, begin=begin
        )

    def _map(self, order: JobOrder, sources: Sequence[Source]) -> None:
        """Put a function over records on top; alone, at the end or inside of a query."""
        job, streams = order.job, order.pipeline.streams
        self._carries[job.name] = True
        self._schemas |= {name: streams[name].schema or {} for name in job.writes}
        self._causes |= {s.stream.name: s.cause for s in sources if s.stream.name in self._seams}
        target = self._target([streams[name] for name in job.writes])
        if not self._several:
            self._own = map_rows(order, sources, target)
            return
        if lost := [s.stream.name for s in sources if not s.carries]:
            raise OperationFailed(
                "no-origin",
                f"job {job.name} reads {lost[0]} inside of a query, where it is not known from "
                "which record a row came",
                "write fuse: never in this job",
            )
        rows = inside_rows(order, sources, target)
        name = job.writes[0]
        if name in order.inside:
            self._seams[name] = made = mapped_seam(streams[name], rows)
            self._causes[name] = made.cause
        else:
            self._own = addressed(Sketch.on(rows), target).frame()

    def _exact(self, order: JobOrder, sources: Sequence[Source]) -> None:
        """Put windows of our own on top."""
        # What it needs takes long to load, and most drivers have no such job.
        from millrace.engines.spark.exact.job import window_rows  # noqa: PLC0415

        job = order.job
        target = self._target([order.pipeline.streams[name] for name in job.writes])
        self._own, schemas, self._fields = window_rows(order, sources, target)
        self._carries[job.name] = False
        self._schemas |= schemas

    def _state(self, order: JobOrder, sources: Sequence[Source]) -> None:
        """Put code with state per key on top."""
        from millrace.engines.spark.keyed.job import keyed_rows  # noqa: PLC0415 - as above

        job, streams = order.job, order.pipeline.streams
        self._carries[job.name] = True
        self._schemas |= {name: streams[name].schema or {} for name in job.writes}
        target = self._target([streams[name] for name in job.writes])
        self._own, self._fields = keyed_rows(order, sources, target)

    def _target(self, outputs: Sequence[Stream]) -> Target:
        streams = self._order.pipeline.streams
        causes = {source.stream.name: source.cause for source in self._sources} | self._causes
        letters = {
            name: streams[dead]
            for name in causes
            if (dead := streams[name].dead_letters) is not None
        }
        return Target(
            job_name(self._order),
            {stream.name: stream for stream in outputs},
            letters,
            causes,
            self._lineage,
        )

    def whole(self) -> Compiled:
        """Return the query."""
        if self._own is not None:
            last = self._order.jobs[-1]
            return self._made(
                self._target([self._order.pipeline.streams[name] for name in last.writes]),
                self._own,
                carries=self._carries[last.name],
            )
        target = self._target([part.stream for part in self._parts])
        wholes = [part.whole for part in self._parts if part.whole is not None]
        one = len(self._parts) == 1
        carries = len(wholes) == len(self._parts) and (one or len(self._sources) == 1)
        if self._several and not carries and (self._lineage or not one):
            lost = next(name for name, known in self._carries.items() if not known)
            raise OperationFailed(
                "no-origin",
                f"job {lost} can't be one query with map jobs, or in a tree: it is not known from "
                "which record its rows come",
                "write fuse: never in this job",
            )
        rows = self._carried(wholes, target) if carries else self._plain(target)
        return self._made(target, rows, carries=carries)

    def _made(self, target: Target, rows: DataFrame, *, carries: bool) -> Compiled:
        mapped = any(job.map is not None for job in self._order.jobs)
        found = operators(self._frames)
        if mapped:
            found = Operators((*found.names, "MapInArrow"), python=True, stateful=found.stateful)
        if any(stream.format is Format.ARROW for stream in target.outputs.values()):
            found = replace(found, python=True)  # which writes such records
        if any(job.keeps_state for job in self._order.jobs):
            found = Operators(
                (*found.names, "TransformWithStateInPySpark"), python=True, stateful=True
            )
        elif found.stateful or fields_before(self._order.place) is not None:
            self._fields = {f"operator {at}": said for at, said in enumerate(found.state, 1)}
            check_same(self._order, self._fields, "keep its keys, sums and joins as they were")
        made = Compiled(
            self._order,
            target,
            rows,
            found,
            carries=carries,
            schemas=self._schemas,
            letters=bool(target.letters)
            and (mapped or any(s.stream.format not in _BYTES for s in self._sources)),
            sources=self._sources,
            fields=self._fields,
            one_to_one=carries and not mapped and len(self._parts) == 1,
        )
        return replace(made, shares=self._shares(made))

    def _carried(self, wholes: Sequence[Any], target: Target) -> DataFrame:
        """Rows that know the record they came from: results and dead letters in one pass."""
        # Functions on the way may find records malformed that were not when they were read.
        sound = not self._lineage and not any(source.cause for source in self._sources)
        about = {"lineage": self._lineage, "sound": sound}
        parts = [
            staged(Sketch(self._session, whole), list(part.columns), part.stream, **about)
            for whole, part in zip(wholes, self._parts, strict=True)
        ]
        together = parts[0]
        if len(parts) > 1:
            together = Sketch.on(fanned([it.frame() for it in parts], self._sources[0].base))
        rows = routed(together, target, sound=sound)
        return frame_by_template(rows, *(part.stream for part in self._parts))

    def _plain(self, target: Target) -> DataFrame:
        """Rows that don't, and beside them the dead letters of each input."""
        rows = _union(
            [
                plain_rows(Sketch.on(part.frame), list(part.columns), part.stream, target).frame()
                for part in self._parts
            ]
        )
        bases = [s.bare for s in self._sources if s.stream.name in target.letters]
        dead = [letter_rows(Sketch.on(base), target).frame() for base in bases if base is not None]
        return _union([rows, *(frame.select(*rows.columns) for frame in dead)])

    def _shares(self, made: Compiled) -> tuple[Share, ...]:
        jobs, inside = self._order.jobs, self._order.inside
        if len(jobs) == 1:
            enters = jobs[0].state is not None
            return (Alone(jobs[0].name, jobs[0].follows, made.carries, made.only, enters),)
        return tuple(
            Member(
                job.name,
                [name for name in job.follows if name not in inside],
                [name for name in job.follows if name in inside],
                job.writes,
                inside,
                # A query that does not carry counts rows, not records, at its end.
                self._carries[job.name] and (made.carries or inside.issuperset(job.writes)),
                mapped=job.map is not None,
            )
            for job in jobs
        )


def _plans(frames: Mapping[str, DataFrame], sources: Sequence[Source]) -> dict[str, Any]:
    """Plans of results with their origins, where these are known.

    Rows of a stream that is read twice have origins that say too little of what is written.
    """
    once = len({source.stream.name for source in sources}) == len(sources)
    return {n: carried(frame, list(sources)) if once else None for n, frame in frames.items()}


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)
