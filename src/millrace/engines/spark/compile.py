"""A job's order as a query: its inputs as frames, its code over them, its results as rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession

from millrace.engines.spark.carry import Operators, carried, operators
from millrace.engines.spark.errors import analysis_failure
from millrace.engines.spark.fan import fanned
from millrace.engines.spark.fit import check_fit
from millrace.engines.spark.formats import Schema, schema_of
from millrace.engines.spark.map_job import map_rows
from millrace.engines.spark.results import results
from millrace.engines.spark.sink import Target, letter_rows, plain_rows, routed, staged
from millrace.engines.spark.source import Source, kafka_reader, source_of
from millrace.model.stream import Format, Stream
from millrace.ports import JobOrder

#: Gives an input's records, with Kafka's columns; takes what `kafka_reader` takes.
Reader = Callable[..., DataFrame]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A job's query, ready to be started in either mode."""

    order: JobOrder
    target: Target
    #: Rows for the sink; with the columns of `finish` where origins are carried.
    rows: DataFrame
    operators: Operators
    #: Whether each row knows the record it came from.
    carries: bool
    schemas: Mapping[str, Schema]
    letters: bool
    sources: Sequence[Source] = field(default=())
    #: Whether each record gives one row at most, and all go to one stream.
    one_to_one: bool = False

    @property
    def only(self) -> str | None:
        """The stream that gets a row for each record used, if there is one."""
        return next(iter(self.order.job.writes)) if self.one_to_one else None


def compiled(
    session: SparkSession,
    order: JobOrder,
    known: Mapping[str, Schema],
    *,
    batches: bool = False,
    reader: Reader = kafka_reader,
) -> Compiled:
    """Return the query of a job; `known` are schemas of streams as their writers make them.

    With `batches` it is made for batches, whose size has a limit then. `reader` gives the records
    of each input.

    Raises, with the way out, for code that can't be loaded or that Spark does not understand, and
    for results that don't fit the stream they go to.
    """
    job = order.job
    try:
        inputs = range(len(job.inputs))
        sources = [
            _source(session, order, place, known, reader, batches=batches) for place in inputs
        ]
        target = _target(order, sources)
        if job.map is not None:
            return _mapped(order, sources, target)
        return _framed(session, order, sources, target)
    except Exception as error:
        raise analysis_failure(job.name, error) from error


def _source(
    session: SparkSession,
    order: JobOrder,
    place: int,
    known: Mapping[str, Schema],
    reader: Reader,
    *,
    batches: bool,
) -> Source:
    input_ = order.job.inputs[place]
    stream = order.pipeline.streams[input_.stream]
    schema = schema_of(stream, known.get(stream.name))
    broker = order.brokers[stream.site or ""]
    records = reader(session, stream, broker, order.job, input_, batches=batches)
    letters = stream.dead_letters is not None or order.job.map is not None
    return source_of(input_, stream, schema, records, letters=letters)


def job_name(order: JobOrder) -> str:
    """Return the job's name in headers; parts of a header are parted by spaces."""
    return f"{quote(order.pipeline.name)}/{order.job.name}"


def _target(order: JobOrder, sources: Sequence[Source]) -> Target:
    streams = order.pipeline.streams
    letters = {
        source.stream.name: streams[source.stream.dead_letters]
        for source in sources
        if source.stream.dead_letters is not None
    }
    return Target(
        job_name(order),
        {name: streams[name] for name in order.job.writes},
        letters,
        {source.stream.name: source.cause for source in sources},
    )


def _framed(
    session: SparkSession, order: JobOrder, sources: Sequence[Source], target: Target
) -> Compiled:
    """A job whose code makes frames of frames: SQL and `python`."""
    frames = results(session, order, sources)
    schemas = {name: check_fit(frame, target.outputs[name]) for name, frame in frames.items()}
    made = operators(list(frames.values()))
    # Rows of a stream that is read twice have origins that say too little of what is written.
    once = len({source.stream.name for source in sources}) == len(sources)
    whole = {n: carried(frame, list(sources)) if once else None for n, frame in frames.items()}
    complete = {name: frame for name, frame in whole.items() if frame is not None}
    letters = bool(target.letters) and any(_may_be_malformed(s.stream) for s in sources)
    if len(complete) == len(frames) and (len(frames) == 1 or len(sources) == 1):
        parts = [
            staged(frame, list(schemas[name]), target.outputs[name])
            for name, frame in complete.items()
        ]
        whole_rows = parts[0] if len(parts) == 1 else fanned(parts, sources[0].base)
        rows = routed(whole_rows, target)
        return Compiled(
            order,
            target,
            rows,
            made,
            carries=True,
            schemas=schemas,
            letters=letters,
            sources=sources,
            one_to_one=len(parts) == 1,
        )
    rows = _union([
        plain_rows(frame, list(schemas[name]), target.outputs[name], target)
        for name, frame in frames.items()
    ])  # fmt: skip
    dead = [letter_rows(s.base, target) for s in sources if s.stream.name in target.letters]
    rows = _union([rows, *(frame.select(*rows.columns) for frame in dead)])
    return Compiled(
        order, target, rows, made, carries=False, schemas=schemas, letters=letters, sources=sources
    )


def _mapped(order: JobOrder, sources: Sequence[Source], target: Target) -> Compiled:
    rows = map_rows(order, sources, target)
    schemas: dict[str, Schema] = {
        name: stream.schema or {} for name, stream in target.outputs.items()
    }
    made = Operators(("MapInArrow",), python=True)
    return Compiled(
        order,
        target,
        rows,
        made,
        carries=True,
        schemas=schemas,
        letters=bool(target.letters),
        sources=sources,
    )


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    first, *rest = frames
    for frame in rest:
        first = first.unionByName(frame)
    return first


def _may_be_malformed(stream: Stream) -> bool:
    return stream.format not in (Format.RAW, Format.TEXT)
